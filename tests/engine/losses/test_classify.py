"""l_aug against a slow loop written from Eq. 8."""

import pytest
import torch

from core.engine.losses.pmsacl import augmentation_loss
from core.engine.losses.reference import cross_entropy


def test_it_is_the_equation():
    logits = torch.randn(10, 4, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(10) % 4
    assert float(augmentation_loss(logits, labels)) == pytest.approx(cross_entropy(logits, labels), rel=1e-5)
    assert augmentation_loss(logits.bfloat16(), labels).dtype == torch.float32
