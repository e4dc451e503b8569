"""The greedy coreset against one farthest patch after another, and the memory's search against all distances."""

import numpy as np
import pytest
import torch

from core.engine.detectors.nearest.memory import Memory, Pool, greedy_coreset


def slow_greedy(x, count, first):
    """Algorithm 1 of PatchCore, as printed."""
    chosen = [first]
    while len(chosen) < count:
        away = np.min([np.linalg.norm(x - x[c], axis=1) for c in chosen], 0)
        away[chosen] = -1
        chosen.append(int(away.argmax()))
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize(("n", "count"), [(900, 300), (50, 49), (300, 1), (2000, 20)])
def test_greedy_coreset_is_one_farthest_after_another(n, count):
    x = np.random.default_rng(n).normal(size=(n, 5)) ** 3  # uneven: a few lie far out
    drawn = torch.Generator().manual_seed(7)
    found = greedy_coreset(torch.from_numpy(x).float(), count, drawn).tolist()
    assert found == slow_greedy(x, count, found[0])


def test_equal_patches_are_not_chosen_twice():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).repeat(5, 1)
    found = greedy_coreset(x, 60, torch.Generator().manual_seed(0))
    assert len(found.unique()) == 60
    assert len(x[found[:40]].unique(dim=0)) == 40
    assert greedy_coreset(x, 500, torch.Generator()).tolist() == list(range(200))


def test_wide_features_are_covered_nearly_as_well():
    """After a random projection the farthest patch may be another, but none is left much farther from a kept one."""
    x = torch.randn(600, 400, generator=torch.Generator().manual_seed(1)) * torch.linspace(2, 0.1, 400)
    exact = slow_greedy(x.numpy(), 60, 0)
    found = greedy_coreset(x, 60, torch.Generator().manual_seed(0))
    assert torch.cdist(x, x[found]).min(1).values.max() < 1.15 * torch.cdist(x, x[exact]).min(1).values.max()


@pytest.mark.parametrize("count", [1, 4])
def test_search_finds_the_nearest_of_all(count):
    draw = torch.Generator().manual_seed(2)
    x, queries = torch.randn(700, 20, generator=draw) + 30, torch.randn(1500, 20, generator=draw) + 30
    memory = Memory.of(x, torch.arange(700), torch.zeros(700), 0)
    distances, index = memory.search(queries, count)
    expected, order = torch.cdist(queries.double(), x.double()).topk(count, largest=False)
    assert (index == order).float().mean() > 0.999
    torch.testing.assert_close(distances.double(), expected, rtol=1e-3, atol=1e-3)
    assert float(memory.search(x)[0].max()) == 0
    assert memory.search(queries[:0], count)[0].shape == (0, count)


def test_weights_are_patchcores():
    draw = torch.Generator().manual_seed(3)
    x, queries = torch.randn(50, 6, generator=draw), torch.randn(10, 6, generator=draw)
    memory = Memory.of(x, torch.arange(50), torch.zeros(50), 5)
    distances, index = (found[:, 0] for found in memory.search(queries))
    for q, d, i, w in zip(queries, distances, index, memory.weights(queries, distances, index), strict=True):
        around = torch.cdist(x[i][None], x)[0].topk(5, largest=False).indices
        expected = 1 - d.exp() / torch.cdist(q[None], x[around]).exp().sum()
        assert float(w) == pytest.approx(float(expected), rel=1e-4)
    plain = Memory.of(x, torch.arange(50), torch.zeros(50), 0)
    assert torch.equal(plain.weights(queries, distances, index), torch.ones(10))


@pytest.mark.parametrize(("limit", "images"), [(40, 7), (5, 12), (1000, 3)])
def test_a_pool_is_bounded_and_even(limit, images):
    features = torch.arange(images * 20.0).view(images, 20, 1)
    pool = Pool(limit, images, seed=1)
    for row in reversed(range(images)):
        pool.add(features[row], row, None)
    values, rows, cells = pool.all()
    assert len(values) == min(limit, images * 20)
    assert torch.equal(values[:, 0], rows * 20.0 + cells)
    counts = torch.bincount(rows, minlength=images)
    assert counts.max() - counts.min() <= 1
    again = Pool(limit, images, seed=1)
    for row in range(images):
        again.add(features[row], row, None)
    assert set(again.all()[0].flatten().tolist()) == set(values.flatten().tolist())


def test_a_pool_keeps_to_the_region_of_interest():
    pool, inside = Pool(12, 2, seed=0), np.zeros(20, bool)
    inside[3:9] = True
    pool.add(torch.zeros(20, 1), 0, inside)
    pool.add(torch.zeros(20, 1), 1, np.zeros(20, bool))  # nothing inside: all of it
    _, rows, cells = pool.all()
    assert sorted(cells[rows == 0].tolist()) == list(range(3, 9)) and len(cells[rows == 1]) == 6
