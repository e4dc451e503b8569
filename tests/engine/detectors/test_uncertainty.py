"""Steadiness: a detector that ignores mirroring and size is sure; one that does not is not."""

import numpy as np

from core.engine.detectors.base import Prediction
from core.engine.detectors.uncertainty import steadiness


class Brightness:
    """Looks at the middle alone, which every view shows: mirrored or not, the mean is the same."""

    def predict(self, images):
        return Prediction(images.mean(3).astype(np.float32)[:, ::2, ::2])

    def image_score(self, prediction, roi=None):
        return prediction.maps.reshape(len(prediction.maps), -1).mean(1)


class LeftHalf(Brightness):
    def image_score(self, prediction, roi=None):
        return prediction.maps[:, :, : prediction.maps.shape[2] // 2].mean((1, 2))


def flat_and_sided():
    images = np.full((2, 32, 32, 3), 100, np.uint8)
    images[1, :, 20:] = 200
    return images


def test_views_that_agree_are_sure():
    out = steadiness(Brightness(), flat_and_sided())
    assert out.scores.shape == (4, 2)
    assert out.score_sd[0] == 0


def test_a_detector_that_minds_the_side_is_unsure():
    out = steadiness(LeftHalf(), flat_and_sided())
    assert out.score_sd[0] == 0
    assert out.score_sd[1] > 20


def test_maps_are_turned_back():
    """A bright right side must stay on the right in the mean of all views."""
    out = steadiness(Brightness(), flat_and_sided())
    mean = out.mean.maps[1]
    assert mean.shape == (16, 16) and np.isfinite(mean).all()
    assert mean[:, :8].max() < 110 and mean[:, 12:].min() > 180
