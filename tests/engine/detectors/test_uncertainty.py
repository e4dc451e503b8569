"""Scores of views: a detector that ignores mirroring and size is sure; one that does not is not."""

import numpy as np

from core.engine.detectors.base import Prediction
from core.engine.detectors.uncertainty import scores_of_views


class Brightness:
    """Looks at the middle alone, which every view shows: mirrored or not, the mean is the same."""

    def predict(self, images):
        return Prediction(images.mean(3).astype(np.float32)[:, ::2, ::2])

    def image_score(self, prediction, roi=None):
        return prediction.maps.reshape(len(prediction.maps), -1).mean(1)


class LeftHalf(Brightness):
    def image_score(self, prediction, roi=None):
        return prediction.maps[:, :, : prediction.maps.shape[2] // 2].mean((1, 2))


def test_scores_of_views():
    images = np.full((2, 32, 32, 3), 100, np.uint8)
    images[1, :, 20:] = 200
    sure, unsure = (scores_of_views(detector, images) for detector in (Brightness(), LeftHalf()))
    assert sure.shape == (4, 2)
    assert sure[:, 0].std() == unsure[:, 0].std() == 0
    assert unsure[:, 1].std() > 20
