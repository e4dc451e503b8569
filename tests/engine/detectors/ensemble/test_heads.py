"""The ensemble is the mean of its members on the scale of normal images, and a stop loses no finished member."""

import numpy as np
import pytest

from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import Combined, Heads, choose_weight
from core.engine.detectors.ensemble.named import CombinedConfig, HeadsConfig
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from tests.engine.detectors.lesion_head.test_lesion_head import FAST, encoder, normals

CONFIG = HeadsConfig(head=FAST, members=2)


@pytest.mark.slow
def test_scores_and_maps_are_means_and_members_differ():
    reported = []
    detector = Heads.fit(encoder(), normals(24), CONFIG, FitContext(report=reported.append))
    assert [v["step"] for v in reported] == list(range(1, 9)) and {v["steps"] for v in reported} == {8}
    images = normals(5, seed=3)
    roi = np.ones(images.shape[:3], np.uint8)
    roi[:, :10] = 0
    prediction = detector.predict(images)
    members, scales = detector.members, detector.reading_scales
    each = [(m.image_score(m.predict(images), roi) - scales[k].mean) / scales[k].sd for k, m in members.items()]
    assert np.allclose(detector.image_score(prediction, roi), np.mean(each, 0), atol=1e-4)
    assert prediction.maps.shape == (5, 16, 16) and prediction.extras["members"].shape == (5, 2)
    assert not np.allclose(prediction.extras["members"][:, 0], prediction.extras["members"][:, 1])


@pytest.mark.slow
def test_a_stopped_fit_goes_on_with_the_member_it_was_at(tmp_path):
    images, reported = normals(24), []
    with pytest.raises(Stopped):
        Heads.fit(
            encoder(),
            images,
            CONFIG,
            FitContext(folder=tmp_path, report=reported.append, should_stop=lambda: len(reported) >= 6),
        )
    assert len(reported) == 6
    resumed = Heads.fit(encoder(), images, CONFIG, FitContext(folder=tmp_path, report=reported.append))
    assert [v["step"] for v in reported] == list(range(1, 9)), "no step twice"
    whole = Heads.fit(encoder(), images, CONFIG)
    assert np.array_equal(resumed.predict(images).maps, whole.predict(images).maps)


@pytest.mark.slow
def test_a_finished_member_of_other_images_is_trained_again(tmp_path):
    images, seen = normals(24), []
    with pytest.raises(Stopped):
        stop = FitContext(folder=tmp_path, report=seen.append, should_stop=lambda: len(seen) >= 5)
        Heads.fit(encoder(), images, CONFIG, stop)
    other = images.copy()
    other[:, 0, 0] ^= 1
    resumed = Heads.fit(encoder(), other, CONFIG, FitContext(folder=tmp_path))
    assert np.array_equal(resumed.predict(images).maps, Heads.fit(encoder(), other, CONFIG).predict(images).maps)


COMBINED = CombinedConfig(head=FAST, learn=False, weight=0.5)


def test_weight_goes_to_the_member_that_knows():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 300)
    knows, guesses = labels * 3 + rng.normal(size=600), rng.normal(size=600)
    assert choose_weight(knows, guesses, labels) < 0.5
    assert choose_weight(guesses, knows, labels) > 1.5
    assert choose_weight(knows, knows + 0.1 * rng.normal(size=600), labels) == 1.0  # as good: equal halves


@pytest.mark.slow
def test_learnt_weights_are_used_and_kept(tmp_path):
    detector = Combined.fit(encoder(), normals(24), COMBINED.replace(learn=True))
    images = normals(4, seed=7)
    prediction = detector.predict(images)
    want = prediction.extras["head"] + detector.reading_weights["padim"] * prediction.extras["padim"]
    assert np.allclose(detector.image_score(prediction), want, atol=1e-4)
    detector.save(tmp_path)
    again = DETECTORS.get("combined").load(tmp_path)
    assert (again.map_weights, again.reading_weights) == (detector.map_weights, detector.reading_weights)


@pytest.mark.slow
def test_the_score_can_have_a_weight_of_its_own():
    learnt = Combined.fit(encoder(), normals(24), COMBINED.replace(learn=True))
    mixed = Combined.fit(encoder(), normals(24), COMBINED.replace(learn=True, score_weight=3.25))
    assert mixed.reading_weights["padim"] == 3.25 and mixed.map_weights == learnt.map_weights
    with pytest.raises(BadConfig, match="score_weight must be at least 0"):
        COMBINED.replace(score_weight=-1.0)


def test_the_seed_is_the_heads():
    assert COMBINED.replace(seed=1).ensemble().members["head"].settings.seed == 1
