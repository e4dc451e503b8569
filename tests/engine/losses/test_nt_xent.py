"""NT-Xent against Chen et al. 2020, Eq. 1."""

from __future__ import annotations

import pytest
import torch

from core.engine.losses import reference
from core.engine.losses.contrastive import nt_xent


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_nt_xent_is_the_equation(sample, tau):
    z, _, partners, _ = sample
    assert float(nt_xent(z, partners, tau)) == pytest.approx(reference.nt_xent(z, partners, tau), rel=1e-5)


def test_gradient_is_finite_and_reaches_every_sample(sample):
    z, _, partners, _ = sample
    z = z.clone().requires_grad_()
    nt_xent(z, partners).backward()
    assert z.grad.isfinite().all() and (z.grad.abs().sum(1) > 0).all()


def test_two_views_alone_cost_nothing():
    """The positive is the whole denominator."""
    assert float(nt_xent(torch.randn(2, 5), torch.tensor([1, 0]))) == pytest.approx(0, abs=1e-6)
