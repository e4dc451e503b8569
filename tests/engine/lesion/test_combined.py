"""The combined detector is the sum of its members on the scale of normal images, no more."""

import numpy as np

from core.engine.detectors.combined import Combined, CombinedConfig
from core.engine.registry import DETECTORS
from tests.engine.lesion.test_lesion_head import FAST, encoder, normals

CONFIG = CombinedConfig(head=FAST, weight=0.5)


def fitted():
    images = normals(24)
    roi = np.ones(images.shape[:3], np.uint8)
    return Combined.fit(encoder(), images, CONFIG, roi=roi)


def test_score_is_the_weighted_sum_of_standardised_scores():
    detector, images = fitted(), normals(5, seed=3)
    roi = np.ones(images.shape[:3], np.uint8)
    roi[:, :10] = 0
    prediction = detector.predict(images)
    want = 0.0
    for name, weight in (("head", 1.0), ("padim", 0.5)):
        member, scale = detector.members[name], detector.scales[name]
        own = member.image_score(member.predict(images), roi)
        want = want + weight * (own - scale.score_mean) / scale.score_sd
    assert np.allclose(detector.image_score(prediction, roi), want, atol=1e-4)
    assert prediction.maps.shape == (5, 16, 16)


def test_saved_and_loaded_scores_the_same(tmp_path):
    detector, images = fitted(), normals(4, seed=5)
    detector.save(tmp_path)
    again = DETECTORS.get("combined").load(tmp_path)
    a, b = detector.predict(images), again.predict(images)
    assert np.allclose(a.maps, b.maps, atol=1e-5)
    assert np.allclose(detector.image_score(a), again.image_score(b), atol=1e-5)
