"""A step of pre-training waits for its device once, for the numbers of the step.

Tensors on `meta` have no values: whatever would look at one (`item`, `tolist`, `nonzero`, a boolean index, a copy to
the CPU) raises. All of a step but the reading of its numbers is done with them here.
"""

from __future__ import annotations

import pytest
import torch

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.pretraining import Data, Pretraining
from tests.conftest import ARCH
from tests.engine._images import normals


@pytest.mark.parametrize(
    ("preset", "objective"),
    [("paper", "pmsacl"), ("quick", "pmsacl"), ("published-ccd", "ccd"), ("published-droc", "droc"), ("paper", "csi")],
)
def test_a_step_waits_once(preset, objective):
    config = PRETRAIN_PRESETS[preset].replace(
        size=64, batch=4, objective=objective, autocast=False, **{"encoder.arch": ARCH}
    )
    images = normals(8, 64)
    training = Pretraining(config, Data(images, (images[..., 0] >= 0).astype("uint8")), torch.device("meta"))
    if training.objective.uses_centres:
        training.centres = torch.empty(training.objective.classes, config.encoder.dim, device="meta")
    h, z, views = training.joint(training.views())
    outcome = training.objective.loss(h, z, views, training.centres)
    measured = training.measured(outcome, views)
    outcome.loss.backward()
    training.optimiser.step()
    assert all(t.is_meta for t in (*measured.values(), h, z, views.images))
    with pytest.raises((RuntimeError, NotImplementedError)):  # the one wait
        torch.cat([t.reshape(-1).float() for t in measured.values()]).tolist()
