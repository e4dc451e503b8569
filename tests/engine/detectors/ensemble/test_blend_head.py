"""Quick detectors and the lesion head together: maps added, one more reading, and nothing of either changed."""

import copy

import numpy as np
import pytest
import torch

from core.engine import rows
from core.engine.calibration.heatmap import blur, upsample
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import BlendHead
from core.engine.detectors.ensemble.named import BlendHeadConfig
from core.engine.detectors.learnt.config import LearntConfig
from core.engine.detectors.learnt.learnt import Learnt
from core.engine.detectors.lesion_head.config import LESION_PRESETS
from tests.engine._images import normals
from tests.engine.detectors.ensemble.test_blend import SMALL, alike
from tests.engine.detectors.lesion_head.test_lesion_head import FAST, encoder, same
from tests.engine.detectors.test_from_marks import marked

HEAD = FAST.replace(mode="frozen", distances=True)
CONFIG = BlendHeadConfig(blend=SMALL.replace(seen=0.0), head=HEAD, side=48, weight=0.5)
ROI = np.zeros((24, 64, 64), np.uint8)
ROI[:, 6:60, 10:] = 1


@pytest.fixture(scope="module")
def fitted():
    images = normals(24, 64)
    return BlendHead.fit(encoder(), images, CONFIG, FitContext(roi=ROI)), images


def small(images):
    return np.asarray(rows.resized(images, 48))


def blend_of(detector):
    return detector.members["blend"]


def test_the_map_is_the_blends_and_a_part_of_the_heads(fitted):
    """The head's by hand: blurred on its own grid, brought to the blend's, and on the scale of unseen normals."""
    detector, images = fitted
    both, blend = detector.predict(images), blend_of(detector).predict(images)
    head = detector.members["head"].predict(small(images))
    assert head.maps.shape == (24, 24, 24) and both.maps.shape == blend.maps.shape == (24, 8, 8)
    smooth = blur(torch.from_numpy(head.maps), 8.0 * 24 / 256).numpy()
    scaled = [
        (part - detector.map_scales[name].mean) / detector.map_scales[name].sd
        for name, part in (("blend", blend.maps), ("head", upsample(smooth, 8)))
    ]
    np.testing.assert_allclose(both.maps, scaled[0] + 0.5 * scaled[1], atol=1e-4)
    without = copy.copy(detector)
    without.map_weights = {"blend": 1.0, "head": 0.0}
    np.testing.assert_allclose(without.predict(images).maps, scaled[0], atol=1e-4)


@pytest.mark.parametrize("kind", ["plain", "roi"])
def test_the_score_is_the_mean_of_the_blends_readings_and_the_heads(fitted, kind):
    detector, images = fitted
    roi = ROI if kind == "roi" else None
    blend = blend_of(detector)
    given = None if roi is None else torch.from_numpy(roi)
    readings = blend.standardised(blend.predict(images, roi=roi).values(), given)
    scale = detector.reading_scales["head_roi" if kind == "roi" else "head"]
    own = detector.members["head"].image_score(detector.members["head"].predict(small(images)), roi)
    want = np.mean([*(v.numpy() for v in readings.values()), (own - scale.mean) / scale.sd], 0)
    assert len(readings) == 4
    np.testing.assert_allclose(detector.image_score(detector.predict(images, roi=roi), roi), want, atol=2e-3)


def test_scales_come_from_images_that_neither_has_seen(fitted):
    detector, images = fitted
    unseen = np.setdiff1d(np.arange(24), detector.kept)
    assert 4 <= len(unseen) < 12
    prediction = detector.predict(images[unseen], roi=ROI[unseen])
    assert abs(detector.image_score(prediction, ROI[unseen]).mean()) < 1e-3
    inside = prediction.maps[ROI[unseen][:, 4::8, 4::8] > 0]
    assert abs(inside.mean()) < 0.1


def test_the_blend_has_more_say_than_the_head_where_normal_images_are_alike_place_by_place(tmp_path):
    weights = {}
    for apart in (0, 16):
        detector = BlendHead.fit(encoder(), alike(24, apart), CONFIG.replace(weight=1.0, **{"head.steps": 2}))
        weights[apart] = (detector.map_weights, detector.reading_weights)
    usual = ({"blend": 1.0, "head": 1.0}, {"blend": 0.8, "head": 0.2})
    assert weights[16] == usual
    assert weights[0] == tuple(
        pytest.approx(w) for w in ({"blend": 1.6, "head": 0.4}, {"blend": 16 / 17, "head": 1 / 17})
    )
    detector = BlendHead.fit(
        encoder(), alike(24, 0), CONFIG.replace(weight=1.0, **{"head.steps": 2, "blend.aligned": 1.0})
    )
    assert (detector.map_weights, detector.reading_weights) == usual


@pytest.mark.slow
def test_the_map_says_nothing_where_normal_images_show_nothing(fitted):
    """One image of 24 shows what lies left of the others' regions: less than a twentieth of them."""
    detector, images = fitted
    regions = ROI.copy()
    regions[5] = 1
    other = BlendHead.fit(encoder(), images, CONFIG.replace(**{"blend.seen": 0.05}), FitContext(roi=regions))
    known = other.known
    assert known is not None and known[1:7, 2:].all() and not known[:, 0].any()
    free = copy.copy(other)
    free.known = None
    masked, whole = other.predict(images[:4]), free.predict(images[:4])
    assert (masked.maps[:, ~known] == 0).all() and np.array_equal(masked.maps[:, known], whole.maps[:, known])
    assert (whole.maps[:, ~known] != 0).any()
    np.testing.assert_allclose(other.image_score(masked), free.image_score(whole), atol=1e-3)


def test_a_map_that_others_changed_moves_the_score(fitted):
    """As learning from marks does: it puts its own map in the place of this one's. The blend in it moves as much."""
    detector, images = fitted
    found = detector.predict(images[:4])
    raised = detector.changed(found, found.maps + 1)
    assert (detector.image_score(raised) > detector.image_score(found)).all()
    blend, moved = (prediction.extras["blend.maps"] for prediction in (found, raised))
    np.testing.assert_allclose(moved - blend, detector.map_scales["blend"].sd, atol=1e-5)
    finer = detector.changed(found, upsample(found.maps, 16)).extras["blend.maps"]
    np.testing.assert_allclose(finer, upsample(blend, 16), atol=1e-5)


@pytest.mark.long
def test_it_learns_on_from_marks(fitted, tmp_path):
    detector, images = fitted
    detector.save(tmp_path)
    config = LearntConfig("blend-head", str(tmp_path), width=16, steps=25)
    learnt = Learnt.fit(encoder(), images, config, FitContext(marks=marked(8)))
    assert learnt.rule.difference > 0, learnt.remarks
    shown = marked(4, seed=2)
    before, after = detector.predict(shown.images), learnt.predict(shown.images)
    inside = shown.masks[:, 2::4, 2::4] > 0
    assert after.maps[inside].mean() - after.maps[~inside].mean() > 2
    scores = learnt.image_score(after, np.ones((4, 64, 64), np.uint8))
    assert scores.shape == (4,) and detector.image_score(before).shape == (4,)


@pytest.mark.slow
def test_what_is_given_in_rows_and_at_once_makes_the_same_head(monkeypatch):
    images = normals(24, 64)
    heads = []
    for most in (rows.AT_ONCE, 0):
        monkeypatch.setattr(rows, "AT_ONCE", most)
        heads.append(BlendHead.fit(encoder(), images, CONFIG, FitContext(roi=ROI)).members["head"])
    assert same(heads[0].net, heads[1].net)


def test_a_preset_says_which_lesions_are_pasted():
    usual, fundus, joint = (BlendHead.presets[kind].head for kind in ("quick", "fundus", "joint"))
    assert BlendHead.presets["quick"] == BlendHeadConfig() and usual.steps == 600
    assert "medmix:varied" in usual.families and set(fundus.families) > set(LESION_PRESETS["fundus"].families)
    assert (usual.mode, fundus.mode, joint.mode) == ("frozen", "frozen", "joint") and fundus.distances
