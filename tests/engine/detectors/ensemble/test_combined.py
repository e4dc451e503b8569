"""The combined detector is the sum of its members on the scale of normal images, no more."""

import numpy as np
import pytest

from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import Combined, choose_weight
from core.engine.detectors.ensemble.named import CombinedConfig
from core.engine.registry import DETECTORS
from tests.engine.detectors.lesion_head.test_lesion_head import FAST, encoder, normals

CONFIG = CombinedConfig(head=FAST, learn=False, weight=0.5)


def fitted():
    images = normals(24)
    roi = np.ones(images.shape[:3], np.uint8)
    return Combined.fit(encoder(), images, CONFIG, FitContext(roi=roi))


@pytest.mark.slow
def test_score_is_the_weighted_sum_of_standardised_scores():
    detector, images = fitted(), normals(5, seed=3)
    roi = np.ones(images.shape[:3], np.uint8)
    roi[:, :10] = 0
    prediction = detector.predict(images)
    want = 0.0
    for name, weight in (("head", 1.0), ("padim", 0.5)):
        member, scale = detector.members[name], detector.reading_scales[name]
        own = member.image_score(member.predict(images), roi)
        want = want + weight * (own - scale.mean) / scale.sd
    assert np.allclose(detector.image_score(prediction, roi), want, atol=1e-4)
    assert prediction.maps.shape == (5, 16, 16)


def test_weight_goes_to_the_member_that_knows():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 300)
    knows, guesses = labels * 3 + rng.normal(size=600), rng.normal(size=600)
    assert choose_weight(knows, guesses, labels) < 0.5
    assert choose_weight(guesses, knows, labels) > 1.5
    assert choose_weight(knows, knows + 0.1 * rng.normal(size=600), labels) == 1.0  # as good: equal halves


@pytest.mark.slow
def test_learnt_weights_are_used_and_kept(tmp_path):
    detector = Combined.fit(encoder(), normals(24), CONFIG.replace(learn=True))
    images = normals(4, seed=7)
    prediction = detector.predict(images)
    want = prediction.extras["head"] + detector.reading_weights["padim"] * prediction.extras["padim"]
    assert np.allclose(detector.image_score(prediction), want, atol=1e-4)
    detector.save(tmp_path)
    again = DETECTORS.get("combined").load(tmp_path)
    assert (again.map_weights, again.reading_weights) == (detector.map_weights, detector.reading_weights)


@pytest.mark.slow
def test_the_score_can_have_a_weight_of_its_own():
    learnt = Combined.fit(encoder(), normals(24), CONFIG.replace(learn=True))
    mixed = Combined.fit(encoder(), normals(24), CONFIG.replace(learn=True, score_weight=3.25))
    assert mixed.reading_weights["padim"] == 3.25 and mixed.map_weights == learnt.map_weights
    with pytest.raises(BadConfig, match="weights are 0 or more"):
        CONFIG.replace(score_weight=-1.0)


@pytest.mark.slow
def test_another_seed_is_another_head():
    heads = [Combined.fit(encoder(), normals(24), CONFIG.replace(seed=s)).members["head"] for s in (0, 1)]
    assert [h.config.seed for h in heads] == [0, 1]
