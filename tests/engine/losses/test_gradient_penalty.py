"""The gradient penalty against finite differences, sample by sample."""

import pytest
import torch

from core.engine.detectors.comparators.nets import gradient_penalty


def slow_penalty(critic, real, fake, share, step=1e-5):
    total = 0.0
    for r, f, s in zip(real, fake, share, strict=True):
        at = s * r + (1 - s) * f
        slopes = []
        for i in range(at.numel()):
            up, down = at.clone().flatten(), at.clone().flatten()
            up[i] += step
            down[i] -= step
            both = critic(torch.stack([up.view_as(at), down.view_as(at)]))
            slopes.append(float((both[0] - both[1]).detach()) / (2 * step))
        total += (sum(v * v for v in slopes) ** 0.5 - 1) ** 2
    return total / len(real)


def test_it_is_the_equation_and_has_a_gradient():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    net = net.double()

    def critic(x):
        return net(x)[:, 0]

    real, fake = torch.rand(2, 4, 3, 2, 2, dtype=torch.float64)
    share = torch.rand(4, dtype=torch.float64)
    found = gradient_penalty(critic, real, fake, share)
    assert float(found.detach()) == pytest.approx(slow_penalty(critic, real, fake, share), rel=1e-6)
    found.backward()
    assert net[1].weight.grad.abs().max() > 0


def test_a_critic_of_slope_one_pays_nothing():
    def critic(x):
        return x.flatten(1)[:, 0]

    assert float(gradient_penalty(critic, torch.rand(3, 2), torch.rand(3, 2), torch.rand(3))) == pytest.approx(0)
