"""The learning rate is a function of the step."""

from __future__ import annotations

import pytest
import torch

from core.engine.objectives.config import PRETRAIN_PRESETS
from core.engine.training.schedule import build_optimiser, learning_rate


def rates(schedule, steps):
    config = PRETRAIN_PRESETS["quick"].replace(schedule=schedule, lr=0.01)
    return [learning_rate(config, step, steps) for step in range(steps)]


def test_onecycle_is_torchs():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=0.01)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=50, cycle_momentum=False)
    expected = []
    for _ in range(50):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()
    assert rates("onecycle", 50) == pytest.approx(expected, rel=1e-6)


def test_cosine_falls_and_constant_stays():
    cosine = rates("cosine", 20)
    assert cosine[0] == 0.01 and cosine == sorted(cosine, reverse=True) and 0 < cosine[-1] < 0.0002
    assert set(rates("constant", 20)) == {0.01}
    assert all(rates(schedule, 1) == [0.01] for schedule in ("constant", "cosine", "onecycle"))


def test_optimisers_are_those_named():
    parameter = torch.nn.Parameter(torch.zeros(1))
    sgd = build_optimiser(PRETRAIN_PRESETS["paper"], [parameter])
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.param_groups[0]["lr"] == 0.01 and sgd.param_groups[0]["momentum"] == 0.9
    assert isinstance(build_optimiser(PRETRAIN_PRESETS["quick"], [parameter]), torch.optim.AdamW)
