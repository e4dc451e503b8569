"""NT-Xent against a slow loop written from Chen et al. 2020, Eq. 1."""

from __future__ import annotations

import math

import pytest
import torch

from core.engine.losses.contrastive import nt_xent


def slow_nt_xent(z, partners, tau):
    def alike(i, j):
        return float(z[i] @ z[j] / (z[i].norm() * z[j].norm()))

    total = 0.0
    for i, p in enumerate(partners.tolist()):
        below = sum(math.exp(alike(i, j) / tau) for j in range(len(z)) if j != i)
        total += -math.log(math.exp(alike(i, p) / tau) / below)
    return total / len(z)


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_nt_xent_is_the_equation(sample, tau):
    z, _, partners, _ = sample
    assert float(nt_xent(z, partners, tau)) == pytest.approx(slow_nt_xent(z, partners, tau), rel=1e-5)


def test_gradient_is_finite_and_reaches_every_sample(sample):
    z, _, partners, _ = sample
    z = z.clone().requires_grad_()
    nt_xent(z, partners).backward()
    assert z.grad.isfinite().all() and (z.grad.abs().sum(1) > 0).all()


def test_two_views_alone_cost_nothing():
    """The positive is the whole denominator."""
    assert float(nt_xent(torch.randn(2, 5), torch.tensor([1, 0]))) == pytest.approx(0, abs=1e-6)
