"""SupCon against Khosla et al. 2020, Eq. 2."""

from __future__ import annotations

import pytest
import torch

from core.engine.losses.contrastive import nt_xent, supcon_loss
from core.engine.losses.reference import supcon


@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_supcon_is_the_equation(sample, tau):
    z, labels, _, _ = sample
    assert float(supcon_loss(z, labels, tau)) == pytest.approx(supcon(z, labels, tau), rel=1e-5)


def test_with_pairs_alone_it_is_the_plain_contrastive_loss(sample):
    """Labels that two views of one image share and no other sample: one positive each."""
    z, _, partners, _ = sample
    pairs = torch.arange(len(z) // 2).repeat(2)
    assert float(supcon_loss(z, pairs)) == pytest.approx(float(nt_xent(z, partners)), rel=1e-5)


def test_a_label_that_stands_alone_adds_nothing_and_no_nan():
    z = torch.randn(3, 4, requires_grad=True)
    loss = supcon_loss(z, torch.tensor([0, 1, 2]))
    loss.backward()
    assert float(loss.detach()) == 0 and z.grad.isfinite().all()
