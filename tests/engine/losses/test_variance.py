"""l_var against a slow loop, and what it is for: one constant feature does not satisfy it."""

import pytest
import torch

from core.engine.losses.pmsacl import EPSILON, pmsacl_loss, variance_loss
from core.engine.losses.reference import l_var


def test_it_is_the_mean_hinge_of_each_class(sample):
    z, labels = sample[0], sample[1].clone()
    labels[0], labels[1:][labels[1:] == 0] = 0, 2  # a class of one sample
    assert float(variance_loss(z, labels)) == pytest.approx(l_var(z, labels, EPSILON), rel=1e-5)


def test_one_constant_lowers_l_pmsacl_and_not_l_var(sample):
    z, labels, partners, centres = sample
    constant = z.mean(0).expand_as(z)
    assert pmsacl_loss(constant, labels, partners, centres) < pmsacl_loss(z, labels, partners, centres)
    assert float(variance_loss(constant, labels)) == pytest.approx(1 - EPSILON**0.5, abs=1e-3)
    far = centres[labels] * 10  # nor does a constant of each class
    assert float(variance_loss(far, labels)) == pytest.approx(1 - EPSILON**0.5, abs=1e-3)


def test_directions_drawn_uniformly_pay_almost_nothing_and_the_gradient_spreads():
    draws = torch.Generator().manual_seed(0)
    z, labels = torch.randn(4000, 16, generator=draws), torch.arange(4000) % 4
    assert variance_loss(z, labels) < 0.02
    near = (torch.ones(64, 16) + 0.05 * torch.randn(64, 16, generator=draws)).requires_grad_()
    before = variance_loss(near, labels[:64])
    before.backward()
    after = variance_loss(near.detach() - 10 * near.grad, labels[:64])
    assert after < before
