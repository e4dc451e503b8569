"""The gradient-domain solver against an exact one, and the outline's edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import lil_matrix
from scipy.sparse.linalg import spsolve

from core.engine.augment.config import SHAPES
from core.engine.augment.medmix.appearance import HARMONICS, coverage, depth, membrane, outline, poisson
from tests.engine.augment.pictures import seeded, tissue


def exact(under: np.ndarray, over: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Perez et al. 2003, Eq. 7, one channel: Laplace f = Laplace over inside, f = under outside."""
    places = np.argwhere(inside)
    index = {tuple(p): i for i, p in enumerate(places)}
    matrix, right = lil_matrix((len(places), len(places))), np.zeros(len(places))
    for (y, x), i in index.items():
        for q in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            matrix[i, i] += 1
            right[i] += over[y, x] - over[q]
            if q in index:
                matrix[i, index[q]] -= 1
            else:
                right[i] += under[q]
    out = under.copy()
    out[inside] = spsolve(matrix.tocsr(), right)
    return out


def blobs(count: int, side: int) -> torch.Tensor:
    line = (2 * torch.arange(side) + 1) / side * 1.2 - 1.2  # a margin around the box
    waves = torch.from_numpy(outline(torch.rand(count, 2 * HARMONICS, generator=seeded(2)).numpy(), 0.8))
    shapes = {name: torch.arange(i, count, 3) for i, name in enumerate(SHAPES)}
    return depth(line.expand(count, -1), line.expand(count, -1), waves, shapes)


@pytest.mark.slow
@pytest.mark.parametrize("side", [13, 32, 50])
def test_poisson_against_an_exact_solver(side):
    under, over = tissue(6, side, 1), tissue(6, side, 2)
    inside = blobs(6, side) > 0
    joined = poisson(under, over, inside)
    for b in range(6):
        for c in range(3):
            expected = exact(under[b, c].double().numpy(), over[b, c].double().numpy(), inside[b].numpy())
            error = np.abs(joined[b, c].numpy() - expected)[inside[b].numpy()]
            spread = np.ptp(under[b, c].numpy() - over[b, c].numpy())
            assert error.mean() < 0.015 * spread and error.max() < 0.06 * spread


def test_a_membrane_over_a_flat_rim_is_flat():
    rim = torch.full((2, 3, 40, 40), 0.3)
    inside = blobs(2, 40) > 0
    rim = torch.where(inside[:, None], torch.tensor(9.0), rim)  # what is inside must not matter
    torch.testing.assert_close(membrane(rim, inside), torch.full_like(rim, 0.3))


def test_soft_edges_are_smooth_and_hard_ones_are_not():
    deep = blobs(3, 60)
    soft, hard = coverage(deep, torch.full((3,), 0.6)), coverage(deep, torch.zeros(3))
    assert set(hard.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(soft > 0, hard > 0), "the mask does not depend on the edge's softness"
    steps = (soft[:, 1:] - soft[:, :-1]).abs().max()
    assert steps < 0.35 < (hard[:, 1:] - hard[:, :-1]).abs().max()
    assert soft.max() > 0.99


@pytest.mark.parametrize("irregularity", [0.0, 0.5, 1.0])
def test_a_blob_is_one_piece_within_its_box(irregularity):
    count, side = 60, 61
    line = (2 * torch.arange(side) + 1) / side * 1.5 - 1.5
    waves = torch.from_numpy(outline(torch.rand(count, 2 * HARMONICS, generator=seeded(3)).numpy(), irregularity))
    deep = depth(line.expand(count, -1), line.expand(count, -1), waves, {"irregular": slice(None)})
    outside = (line.abs() > 1)[:, None] | (line.abs() > 1)[None]
    assert (deep[:, outside] <= 0).all()
    assert (deep[:, side // 2, side // 2] > 0).all()
    areas = (deep > 0).float().sum((1, 2))
    disc = torch.pi * (side / 3) ** 2
    assert (areas <= 1.01 * disc).all() and (areas > 0.15 * disc).all()
    if irregularity:
        assert areas.std() > 0.02 * disc
