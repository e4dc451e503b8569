"""Features as a PMSACL step lays them out."""

import pytest
import torch

CLASSES, IMAGES, DIM = 4, 3, 6


@pytest.fixture
def sample():
    """z (M, D), labels, partners as PMSACL lays them out, and centres."""
    draws = torch.Generator().manual_seed(1)
    count = IMAGES * CLASSES
    z = torch.randn(2 * count, DIM, generator=draws)
    labels = torch.arange(CLASSES).repeat(IMAGES).repeat(2)
    partners = torch.arange(2 * count).roll(count)
    return z, labels, partners, torch.randn(CLASSES, DIM, generator=draws)
