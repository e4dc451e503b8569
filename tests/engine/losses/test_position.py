"""l_pos against a slow loop written from Eq. 9; pairs of patches are neighbours, inside the image."""

import pytest
import torch

from core.engine.losses.pmsacl import position_loss
from core.engine.losses.reference import cross_entropy
from core.engine.objectives.views import NEIGHBOURS, cut, draw_corners


def test_it_is_the_equation():
    logits = torch.randn(10, 8, generator=torch.Generator().manual_seed(2))
    places = torch.arange(10) % 8
    assert float(position_loss(logits, places)) == pytest.approx(cross_entropy(logits, places), rel=1e-5)
    assert position_loss(logits.bfloat16(), places).dtype == torch.float32


@pytest.mark.parametrize("side", [64, 100])
def test_pairs_are_neighbours_inside_the_image(side):
    """Without jitter the second patch lies exactly one patch away, in the direction its class says."""
    first, second, places = draw_corners(200, side, 32, 0, torch.Generator().manual_seed(3))
    assert torch.equal((second - first) // 32, torch.tensor(NEIGHBOURS)[places])
    assert torch.equal((second - first) % 32, torch.zeros(200, 2, dtype=torch.long))
    for corners in (first, second):
        assert corners.min() >= 0 and corners.max() <= side - 32
    assert places.unique().tolist() == list(range(8))


def test_jitter_moves_pairs_but_not_out_of_the_image():
    first, second, places = draw_corners(200, 128, 32, 8, torch.Generator().manual_seed(3))
    off = second - first - torch.tensor(NEIGHBOURS)[places] * 32
    assert off.abs().max() > 0 and off.abs().max() <= 16
    assert min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 96


def test_patches_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit side by side"):
        draw_corners(2, 48, 32, 0, torch.Generator())


def test_cut_is_a_slice():
    images = torch.rand(2, 3, 40, 40)
    got = cut(images, torch.tensor([[3, 5], [8, 0]]), 32)
    assert torch.equal(got[0], images[0, :, 3:35, 5:37]) and torch.equal(got[1], images[1, :, 8:40, 0:32])
