"""Nearest patches: against a plain loop, traced to the training image, saved and loaded, and fitted with others."""

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.config import BadConfig
from core.engine.detectors import map_detector
from core.engine.detectors.base import FitContext
from core.engine.detectors.map_detector import fit_together, predict_together
from core.engine.detectors.nearest.memory import patches_of, scales_of
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch
from tests.engine.detectors.conftest import with_spot

pytestmark = pytest.mark.slow

WHOLE = NearestConfig(patches=5000, pool=5000, sigma=0.0, neighbours=0, batch=7)  # every patch is kept


def maps_of(encoder, images):
    with torch.inference_mode():
        return encoder.maps(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255, (8, 16))


def test_registry_lists_it():
    assert DETECTORS.get("nearest") is Nearest and DETECTORS.about("nearest")["title"] == "Nearest patches"


def test_patches_are_means_of_the_cells_around(encoder, images):
    maps = maps_of(encoder, images[:2])
    found = patches_of(maps, (8, 16)).numpy()
    assert found.shape == (2, 8, 8, 128 + 256 + 2)
    fine = maps[8].numpy()
    for i, j in ((0, 0), (3, 7), (4, 4)):
        near = fine[:, :, max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
        np.testing.assert_allclose(found[:, i, j, :128], near.mean((2, 3)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[0, i, j, -2:], [(i + 0.5) / 8, (j + 0.5) / 8], rtol=1e-6)


def test_maps_are_distances_to_the_nearest_of_all_patches(encoder, images):
    detector = Nearest.fit(encoder, images[:20], WHOLE)
    assert len(detector.memory.features) == 20 * 64
    known = patches_of(maps_of(encoder, images[:20]), (8, 16)).flatten(0, 2)[:, :-2].double()
    asked = patches_of(maps_of(encoder, images[20:]), (8, 16)).flatten(0, 2)[:, :-2].double()
    expected = torch.cdist(asked, known).min(1).values.view(4, 8, 8)
    np.testing.assert_allclose(detector.predict(images[20:]).maps, expected, rtol=1e-3)


def test_batches_do_not_matter(encoder, images):
    config = NearestConfig(patches=200, pool=400, coreset="random")
    a = Nearest.fit(encoder, images, config.replace(batch=5)).predict(images[:4], batch=1)
    b = Nearest.fit(encoder, images, config).predict(images[:4])
    np.testing.assert_allclose(a.maps, b.maps, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("changes", [{}, {"coreset": "random"}, {"balance": True}, {"position": 1.0}])
def test_a_spot_is_found(encoder, images, changes):
    detector = Nearest.fit(encoder, images[:20], NearestConfig(patches=300, pool=900).replace(**changes))
    assert len(detector.memory.features) == 300
    plain, spotted = detector.predict(images[20:]), detector.predict(with_spot(images[20:], 27))
    assert detector.image_score(spotted).min() > detector.image_score(plain).max()
    y, x = np.unravel_index(spotted.maps[0].argmax(), (8, 8))
    assert 2 <= y <= 5 and 2 <= x <= 5  # pixels 27..37 are cells 3 and 4


def test_score_in_a_region_of_interest(encoder, images):
    detector = Nearest.fit(encoder, images[:20], WHOLE)
    spotted = detector.predict(with_spot(images[20:], 27))
    roi = np.ones((4, 64, 64), np.uint8)
    whole = detector.image_score(spotted)
    np.testing.assert_allclose(whole, spotted.maps.reshape(4, -1).max(1))
    assert np.array_equal(detector.image_score(spotted, roi), whole)
    assert np.array_equal(detector.image_score(spotted, 0 * roi), whole)  # an empty region says nothing
    roi[:, 8:, 8:] = 0
    assert (detector.image_score(spotted, roi) < whole).all()


def test_only_what_lies_inside_is_remembered(encoder, images):
    roi = np.zeros((24, 64, 64), np.uint8)
    roi[:, :, :32] = 1
    memory = Nearest.fit(encoder, images, WHOLE, FitContext(roi=roi)).memory
    assert len(memory.cells) == 24 * 32 and int((memory.cells % 8).max()) == 3


def test_each_decision_is_traced_to_a_training_image(encoder, images):
    detector = Nearest.fit(encoder, images[:20], WHOLE)
    points = np.array([(0, 0), (63, 63), (20, 44)])
    found = detector.explain(images[[4, 11, 2]], points)
    assert [m.row for m in found] == [4, 11, 2] and all(m.distance < 1e-3 and m.there == m.box for m in found)
    assert [m.box for m in found] == [(0, 0, 16, 16), (48, 48, 64, 64), (8, 32, 32, 56)]
    peaks = detector.explain(with_spot(images[20:], 27))
    scores = detector.image_score(detector.predict(with_spot(images[20:], 27)))
    np.testing.assert_allclose([m.distance for m in peaks], scores, rtol=1e-4)
    assert all(m.box[0] <= 37 and m.box[2] >= 27 and m.row < 20 for m in peaks)
    roi = np.ones((4, 64, 64), np.uint8)
    roi[:, 8:, 8:] = 0
    assert all(m.box[0] < 8 or m.box[1] < 8 for m in detector.explain(with_spot(images[20:], 27), roi=roi))


def test_the_place_is_a_soft_prior(encoder, images):
    """The more the place weighs, the nearer to its own place a patch of a moved image is compared."""
    moved, points = np.roll(images[20:], 32, (1, 2)), np.array([(10, 10), (20, 50), (50, 30), (60, 5)])
    steps = []
    for position in (0.0, 1.0, 100.0):
        detector = Nearest.fit(encoder, images[:20], WHOLE.replace(position=position))
        found = detector.explain(moved, points)
        steps.append(np.mean([abs(a - b) for m in found for a, b in zip(m.box, m.there, strict=True)]))
    assert steps[0] > steps[1] > steps[2] == 0


def test_scales():
    pool = torch.randn(4000, 7, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 1, 9, 9, 9, 0, 0])
    plain, even = (scales_of(pool, [2, 3], balance, 0.5) for balance in (False, True))
    assert torch.equal(plain[:5], torch.ones(5))
    assert float(plain[5]) == pytest.approx(0.5 * (2 + 3 * 81) ** 0.5, rel=0.1)
    first, second = (float(part.sum()) for part in (pool * even).var(0)[:5].split([2, 3]))
    assert first == pytest.approx(1, rel=0.01) and second == pytest.approx(1, rel=0.01)
    assert float(even[5]) == pytest.approx(0.5 * 2**0.5, rel=0.01)


def test_several_share_one_pass(encoder, images, monkeypatch):
    wanted = [(PaDiM, PaDiMConfig(channels=20, batch=8)), (Nearest, NearestConfig(patches=200, pool=500, batch=8))]
    alone = [kind.fit(encoder, images, config) for kind, config in wanted]
    passes = []

    def counted(part, device):
        passes.append(len(part))
        return to_batch(part, device)

    monkeypatch.setattr(map_detector, "to_batch", counted)
    seen = []
    both = fit_together(encoder, images, wanted, FitContext(report=seen.append))
    predictions = predict_together(both, images[:5])
    assert passes == [8, 8, 8, 5] and [v["images"] for v in seen] == [8, 16, 24]
    for detector, prediction in zip(alone, predictions, strict=True):
        np.testing.assert_allclose(prediction.maps, detector.predict(images[:5]).maps, rtol=1e-4, atol=1e-4)
    assert len(predict_together(both, images[:0])[1]) == 0


def test_mistakes_are_named(encoder, images):
    detector = Nearest.fit(encoder, images, WHOLE)
    with pytest.raises(ValueError, match="64 x 64"):
        detector.predict(np.zeros((1, 32, 32, 3), np.uint8))
    with pytest.raises(ValueError, match="at least 1 normal image"):
        Nearest.fit(encoder, images[:0], WHOLE)
    with pytest.raises(Stopped):
        Nearest.fit(encoder, images, WHOLE, FitContext(should_stop=lambda: True))
    for bad in ({"strides": (16, 8)}, {"coreset": "best"}, {"patches": 0}, {"pool": 10}, {"position": -1.0}):
        with pytest.raises(BadConfig):
            NearestConfig(**bad)


def test_a_vision_transformers_tokens_are_compared(images):
    """Those after a half and three quarters of the blocks; a checkerboard is the most abnormal place."""
    encoder = build_encoder(EncoderConfig(arch="vit_tiny_patch16_224", seed=1)).eval()
    fitted = Nearest.fit(encoder, images, NearestConfig(patches=5000, pool=5000, sigma=0.0))
    spoilt = images[:2].copy()
    spoilt[:, 32:48, 32:48] = (np.indices((16, 16)).sum(0) % 4 < 2)[None, ..., None] * 255
    assert fitted.predict(images[:2]).maps.max() < 1e-3
    found = fitted.predict(spoilt).maps  # (2, 8, 8)
    assert {divmod(int(i), 8) for i in found.reshape(2, -1).argmax(1)} <= {(y, x) for y in (4, 5) for x in (4, 5)}
