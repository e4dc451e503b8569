"""The learning rate is a function of the step."""

import pytest
import torch

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.schedule import build_optimiser, learning_rate, polynomial, set_rate, warm_cosine


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
    assert cosine[0] == 0.01 and cosine == sorted(cosine, reverse=True) and 1e-5 < cosine[-1] < 0.0002
    assert set(rates("constant", 20)) == {0.01}
    assert all(rates(schedule, 1) == [0.01] for schedule in ("constant", "cosine", "onecycle"))


def test_warm_cosine_rises_then_falls_to_its_least():
    shares = [warm_cosine(step, 100, 0.2) for step in range(100)]
    assert shares[20] == 1 and shares[0] == shares[-1] == 0.02
    assert shares[:21] == sorted(shares[:21]) and shares[20:] == sorted(shares[20:], reverse=True)
    assert shares[10] == pytest.approx(0.5) and shares[60] == pytest.approx(0.5)
    assert warm_cosine(0, 10, 0.0) == 1


def test_polynomial_is_torchs():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.PolynomialLR(optimiser, total_iters=12, power=0.9)
    for step in range(12):
        assert polynomial(step, 12, 0.9) == pytest.approx(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()


def test_one_rate_for_all_parameters():
    optimiser = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)], lr=1.0)
    set_rate(optimiser, 0.25)
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.25]


def test_optimisers_are_those_named():
    parameter = torch.nn.Parameter(torch.zeros(1))
    sgd = build_optimiser(PRETRAIN_PRESETS["as-printed"], [parameter])
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.param_groups[0]["lr"] == 0.01 and sgd.param_groups[0]["momentum"] == 0.9
    assert isinstance(build_optimiser(PRETRAIN_PRESETS["quick"], [parameter]), torch.optim.AdamW)
