"""Quick detectors blended: its map and score are the means of its members' standardised ones."""

import numpy as np
import pytest

from core.engine import rows
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration import heatmap
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import Blend
from core.engine.detectors.ensemble.named import BlendConfig
from core.engine.metrics.detection import mean_colour_scores
from tests.conftest import ARCH
from tests.engine._images import normals

SMALL = (
    BlendConfig()
    .replace(**{f"{name}.patches": 60 for name in ("fine", "coarse")})
    .replace(**{f"{name}.pool": 200 for name in ("fine", "coarse")})
)


@pytest.fixture(scope="module")
def fitted():
    images = normals(24, 64)
    return Blend.fit(build_encoder(EncoderConfig(arch=ARCH, seed=2)), images, SMALL), images


def test_on_unseen_normals_every_part_has_mean_0_and_deviation_1(fitted):
    detector, images = fitted
    unseen = np.delete(images, detector.kept, 0)
    parts = {name: member.predict(unseen) for name, member in detector.members.items()}
    scaled = [
        (upsample(parts[n].maps, 8) - detector.map_scales[n].mean) / detector.map_scales[n].sd
        for n in detector.config.maps
    ]
    prediction = detector.predict(unseen)
    np.testing.assert_allclose(prediction.maps, np.mean(scaled, 0), atol=1e-4)
    assert abs(detector.image_score(prediction).mean()) < 1e-4


def test_a_square_put_in_raises_score_and_map_at_its_place(fitted):
    detector, _ = fitted
    plain = normals(6, 64, 5)
    marked = plain.copy()
    marked[:, 16:40, 16:40] = np.random.default_rng(0).integers(0, 255, (6, 24, 24, 3), dtype=np.uint8)
    before, after = detector.predict(plain), detector.predict(marked)
    assert (detector.image_score(after) > detector.image_score(before)).all()
    rise = after.maps - before.maps
    assert rise[:, 2:5, 2:5].mean() > rise[:, 6:, 6:].mean()


def test_only_the_region_of_interest_counts():
    images = normals(24, 64)
    roi = np.zeros((24, 64, 64), np.uint8)
    roi[:, :, 24:] = 1
    detector = Blend.fit(build_encoder(EncoderConfig(arch=ARCH, seed=2)), images, SMALL, FitContext(roi=roi))
    marked = images[:4].copy()
    marked[:, :, :12] = 255
    score = {
        kind: [detector.image_score(detector.predict(x, roi=roi[:4]), inside) for x in (images[:4], marked)]
        for kind, inside in {"roi": roi[:4], "plain": None}.items()
    }
    rise = {kind: np.mean(after - before) for kind, (before, after) in score.items()}
    assert rise["plain"] > 0 and rise["roi"] < rise["plain"]


def test_the_map_says_nothing_where_normal_images_show_nothing(tmp_path):
    """One image of 24 shows what lies left of the others' regions; a square there moves the score and not the map."""
    images, roi = normals(24, 64), np.zeros((24, 64, 64), np.uint8)
    roi[:, :, 16:] = 1
    roi[5] = 1
    detector = Blend.fit(build_encoder(EncoderConfig(arch=ARCH, seed=2)), images, SMALL, FitContext(roi=roi))
    assert detector.known is not None and not detector.known[:, :2].any() and detector.known[:, 2:].all()
    marked = images[:4].copy()
    marked[:, 16:48, :8] = 255
    before, after = detector.predict(images[:4]), detector.predict(marked)
    for prediction in (before, after):
        assert (prediction.maps[:, :, :2] == 0).all()
        assert np.array_equal(prediction.maps[:, :, 2:], prediction.extras["everywhere"][:, :, 2:])
    assert (detector.image_score(after) > detector.image_score(before)).all()
    detector.save(tmp_path)
    np.testing.assert_allclose(Blend.load(tmp_path).predict(marked).maps, after.maps, atol=1e-5)


def test_images_that_do_not_fit_into_memory_give_the_same_blend(monkeypatch):
    """Rows that are read when asked for, and regions brought to a grid a few at a time, against all at once."""
    images, roi = normals(24, 64), np.zeros((24, 64, 64), np.uint8)
    roi[:, 8:56, 4:60] = 1
    blends = []
    for most, block in ((rows.AT_ONCE, heatmap.BLOCK), (0, 3)):
        monkeypatch.setattr(rows, "AT_ONCE", most)
        monkeypatch.setattr(heatmap, "BLOCK", block)
        encoder = build_encoder(EncoderConfig(arch=ARCH, seed=2))
        blends.append(Blend.fit(encoder, images, SMALL, FitContext(roi=roi)))
    one, other = (blend.predict(images, roi=roi) for blend in blends)
    assert np.array_equal(one.maps, other.maps)
    assert np.array_equal(blends[0].image_score(one, roi), blends[1].image_score(other, roi))


def test_it_is_the_same_after_save_and_load(fitted, tmp_path):
    detector, images = fitted
    detector.save(tmp_path)
    again = Blend.load(tmp_path)
    before, after = detector.predict(images[:3]), again.predict(images[:3])
    np.testing.assert_allclose(before.maps, after.maps, atol=1e-5)
    np.testing.assert_allclose(detector.image_score(before), again.image_score(after), atol=1e-4)
    assert np.array_equal(again.kept, detector.kept) and len(detector.kept) == 20


def test_mean_colour_is_one_of_the_readings(fitted):
    detector, images = fitted
    bright = np.clip(images[:4].astype(int) + 90, 0, 255).astype(np.uint8)
    prediction = detector.predict(bright)
    seen = images[detector.kept]
    np.testing.assert_allclose(prediction.extras["colour"], mean_colour_scores(seen, bright), rtol=1e-6)
    scaled = [
        (values - detector.reading_scales[name].mean) / detector.reading_scales[name].sd
        for name, values in detector._readings(prediction, None).items()
    ]
    assert len(scaled) == 4
    np.testing.assert_allclose(detector.image_score(prediction), np.mean(scaled, 0), rtol=1e-4)
    without = Blend.fit(build_encoder(EncoderConfig(arch=ARCH, seed=2)), images, SMALL.replace(colour=False))
    assert set(without.standardised(without.predict(bright))) == {"pooled", "mean", "top"}


def test_few_images_are_refused(fitted):
    with pytest.raises(ValueError, match="at least 16"):
        Blend.fit(build_encoder(EncoderConfig()), normals(8, 64), SMALL)
