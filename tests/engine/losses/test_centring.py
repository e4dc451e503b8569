"""l_ctr against Eq. 3, and its gradients."""

import pytest
import torch

from core.engine.losses.pmsacl import centring_loss
from core.engine.losses.reference import l_ctr


def test_centring_is_the_equation(sample):
    z, labels, _, centres = sample
    assert float(centring_loss(z, labels, centres)) == pytest.approx(l_ctr(z, labels, centres), rel=1e-5)


def test_gradient_reaches_features_and_not_centres(sample):
    z, labels, _, centres = sample
    z, centres = z.clone().requires_grad_(), centres.clone().requires_grad_()
    centring_loss(z, labels, centres).backward()
    assert (z.grad.abs().sum(1) > 0).all()
    assert centres.grad is None


def test_it_is_float32_whatever_the_features(sample):
    z, labels, _, centres = sample
    z = z.bfloat16()
    assert centring_loss(z, labels, centres).dtype == torch.float32
