"""A training that cuts its lesions from another study's images: it sees those, and goes on with those alone."""

import numpy as np
import pytest
import torch

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.pretraining import Data, Pretraining
from tests.conftest import ARCH
from tests.engine._images import normals

PLAIN = {"match": (0.0, 0.0), "least_contrast": 0.0, "p_jitter": 0.0, "p_noise": 0.0, "p_fisheye": 0.0, "p_wave": 0.0}
CONFIG = PRETRAIN_PRESETS["quick"].replace(
    size=32, batch=3, epochs=1, k=1, **{f"medmix.{k}": v for k, v in PLAIN.items()}
)
CONFIG = CONFIG.replace(
    **{"encoder.arch": ARCH, "medmix.donor": "foreign", "medmix.donor_study": "blue", "medmix.size": (0.4, 0.5)}
)
PLAINLY = {"weak.p_jitter": 0.0, "weak.p_grey": 0.0, "weak.p_blur": 0.0}
BLUE = np.zeros((5, 32, 32, 3), np.uint8)
BLUE[..., 2] = 255


@pytest.mark.parametrize("objective", ["pmsacl", "pmsacl-local"])
def test_the_batch_holds_the_other_studys_pixels(objective):
    config = CONFIG.replace(objective=objective, patch=16, **PLAINLY)
    for pool, expected in ((BLUE, True), (None, False)):
        trainer = Pretraining(config, Data(normals(6), None, pool, None), torch.device("cpu"))
        views = trainer.views()
        images = views.images[: len(views.labels)]
        blue = (images[:, 2] > 0.98) & (images[:, :2] < 0.02).all(1)
        assert bool(blue[views.labels == 1].any()) == expected
        assert not blue[views.labels == 0].any()
