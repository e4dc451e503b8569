"""Quick detectors blended: its map and score are the means of its members' standardised ones."""

import numpy as np
import pytest
import torch

from core.engine import rows
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration import heatmap
from core.engine.calibration.heatmap import upsample
from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.config import ALIKE, aligned_weights
from core.engine.detectors.ensemble.ensemble import Blend
from core.engine.detectors.ensemble.named import BlendConfig
from core.engine.mean_colour import MeanColour
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


def test_the_map_says_nothing_where_normal_images_show_nothing():
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


def test_mean_colour_is_one_of_the_readings(fitted):
    detector, images = fitted
    bright = np.clip(images[:4].astype(int) + 90, 0, 255).astype(np.uint8)
    prediction = detector.predict(bright)
    seen = images[detector.kept]
    np.testing.assert_allclose(prediction.extras["colour"], MeanColour.fit(seen).distances(bright), rtol=1e-6)
    scaled = [
        (values - detector.reading_scales[name].mean) / detector.reading_scales[name].sd
        for name, values in detector._readings(prediction.values(), None).items()
    ]
    assert len(scaled) == 4
    np.testing.assert_allclose(detector.image_score(prediction), torch.stack(scaled).mean(0), rtol=1e-4)
    without = Blend.fit(build_encoder(EncoderConfig(arch=ARCH, seed=2)), images, SMALL.replace(colour=False))
    assert set(without.standardised(without.predict(bright).values())) == {"pooled", "mean", "top"}


def alike(count: int, apart: int) -> np.ndarray:
    """A drawn part before a plain ground, up to `apart` pixels away from its place."""
    draw = np.random.default_rng(3)
    images = np.full((count, 64, 64, 3), 200, np.uint8)
    for image in images:
        x, y = 16 + draw.integers(-apart, apart + 1, 2)
        image[y : y + 32, x : x + 24] = (40, 45, 60)
        image[y + 20 : y + 26, x : x + 24] = (180, 120, 60)
    return np.clip(images + draw.normal(0, 4, images.shape), 0, 255).astype(np.uint8)


def test_padims_map_has_more_say_where_normal_images_are_alike_place_by_place(tmp_path):
    encoder = build_encoder(EncoderConfig(arch=ARCH, seed=2))
    blends = {apart: Blend.fit(encoder, alike(24, apart), SMALL) for apart in (0, 16)}
    shares = {apart: blend.members["padim"].alignment(20) for apart, blend in blends.items()}
    assert shares[0] > 0.75 and shares[16] < 0.45
    assert blends[16].map_weights == dict.fromkeys(SMALL.maps, 0.25)
    assert blends[0].map_weights == pytest.approx({"padim": 4 / 7, "fine": 1 / 7, "coarse": 1 / 7, "pooled": 1 / 7})
    blends[0].save(tmp_path)
    assert Blend.load(tmp_path).map_weights == blends[0].map_weights
    assert Blend.fit(encoder, alike(24, 0), SMALL.replace(aligned=1.0)).map_weights == blends[16].map_weights


def test_places_that_normal_images_hardly_show_have_no_part_in_how_alike_they_are(fitted):
    """A border that is black in all of them would make any images alike."""
    images = normals(24, 64)
    roi = np.zeros((24, 64, 64), np.uint8)
    roi[:, 16:48, 16:48] = 1
    framed = images * roi[..., None]
    blend = Blend.fit(build_encoder(EncoderConfig(arch=ARCH, seed=2)), framed, SMALL, FitContext(roi=roi))
    padim = blend.members["padim"]
    assert padim.alignment(20, blend.known) < padim.alignment(20) - 0.1


def test_weights_grow_in_proportion_and_keep_their_sum():
    shares = {"none": 0.0, "low": ALIKE[0], "half": sum(ALIKE) / 2, "whole": 1.0}
    weights = {
        name: aligned_weights({"padim": 0.5, "fine": 0.5}, {"padim": 3.0}, {"padim": share})
        for name, share in shares.items()
    }
    assert weights["none"] == weights["low"] == {"padim": 0.5, "fine": 0.5}
    assert weights["half"] == pytest.approx({"padim": 2 / 3, "fine": 1 / 3})
    assert weights["whole"] == pytest.approx({"padim": 3 / 4, "fine": 1 / 4})


def test_only_a_padim_whose_map_counts_may_be_named_and_no_weight_falls():
    whole = BlendConfig().ensemble()
    for aligned in ({"fine": 2.0}, {"none": 2.0}, {"padim": 0.5}):
        with pytest.raises(BadConfig):
            whole.replace(aligned=aligned)


@pytest.mark.parametrize("count", [3, 8, 15])
def test_few_images_are_all_fitted_on_and_each_is_scored_by_the_others(count):
    encoder, unseen = build_encoder(EncoderConfig(arch=ARCH, seed=2)), normals(12, 64, 7)
    images, roi = normals(count, 64), np.ones((count, 64, 64), np.uint8)
    fitted = Blend.fit(encoder, images, SMALL, FitContext(roi))
    assert fitted.kept.tolist() == list(range(count))
    own, other = (fitted.image_score(fitted.predict(x), roi[:1].repeat(len(x), 0)) for x in (images, unseen))
    assert own.mean() < other.mean(), "the images of the fit look more normal than any that come later"
    assert abs(np.median(other)) < (12 if count == 3 else 3), "the scale is one of images that were left out"
