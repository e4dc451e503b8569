"""Averaged weights against a slow average kept by hand."""

import copy

import pytest
import torch

from core.engine.training.base import Average


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_against_a_slow_average(decay):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    optimiser, average = torch.optim.SGD(net.parameters(), 0.1), Average(net, decay)
    expected = {k: v.clone() for k, v in net.state_dict().items()}
    for step in range(1, 6):
        optimiser.zero_grad()
        net(torch.rand(4, 2, 8, 8)).square().mean().backward()
        optimiser.step()
        average.update_parameters(net)
        kept = min(decay, 1 - 1 / (step + 1))
        for name, value in net.state_dict().items():
            whole = not value.is_floating_point()
            expected[name] = value.clone() if whole else kept * expected[name] + (1 - kept) * value
    for name, value in average.module.state_dict().items():
        torch.testing.assert_close(value, expected[name])


def test_it_is_the_plain_mean_while_the_memory_grows():
    net = torch.nn.Linear(1, 1, bias=False)
    average, seen = Average(net, 0.999), [net.weight.item()]
    for value in (2.0, 4.0, 9.0):
        net.weight.data.fill_(value)
        average.update_parameters(net)
        seen.append(value)
        assert average.module.weight.item() == pytest.approx(sum(seen) / len(seen))


def test_a_copy_goes_on_the_same():
    net = torch.nn.Linear(2, 2)
    one = Average(net, 0.9)
    one.update_parameters(net)
    two = Average(copy.deepcopy(net), 0.9)
    two.load_state_dict(one.state_dict())
    net.weight.data.fill_(3.0)
    for average in (one, two):
        average.update_parameters(net)
    assert torch.equal(one.module.weight, two.module.weight)
