"""Aligned epochs move less than unaligned ones; Procrustes turns and mirrors, and does nothing else."""

import numpy as np
import pytest

from core.studio.clusters import maps
from core.studio.clusters.config import MapConfig


def drifting(n: int = 240, d: int = 32, epochs: int = 3):
    """Features of `epochs` epochs in six clusters; 30 % of the points wander, the others stay: (list, bool (N,))."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6, d)) * 1.2
    x = means[rng.integers(0, 6, n)] + rng.normal(size=(n, d))
    moves = rng.random(n) < 0.3
    series = [x]
    for _ in range(epochs - 1):
        x = x.copy()
        x[moves] += rng.normal(size=(moves.sum(), d)) * 0.6
        series.append(x)
    return series, moves


def series_of(series, config: MapConfig) -> np.ndarray:
    """The aligned maps of a series: float32 (E, N, 2)."""
    return np.stack([coords for _, coords in maps.fit_series(series, config)])


def unaligned(series, method: str) -> np.ndarray:
    """Fits that know nothing of each other, each with a seed of its own."""
    return np.stack([maps.fit_map(x, MapConfig(method=method, seed=e)) for e, x in enumerate(series)])


def displacement(several: np.ndarray, which: np.ndarray) -> float:
    """Mean distance that the points `which` (N,) go from one map to the next of (E, N, 2)."""
    return float(np.linalg.norm(np.diff(several.astype(np.float64), axis=0), axis=2)[:, which].mean())


@pytest.mark.long
@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_unchanged_points_move_at_most_a_quarter_of_unaligned_fits(method):
    series, moves = drifting()
    aligned = displacement(series_of(series, MapConfig(method=method)), ~moves)
    free = displacement(unaligned(series, method), ~moves)
    print(f"{method}: {aligned:.3f} aligned, {free:.3f} unaligned, {aligned / free:.2f} of it")  # shown by pytest -rP
    assert aligned <= free / 4, f"{aligned:.3f} against {free:.3f}"


@pytest.mark.long
def test_aligned_maps_are_as_faithful_as_free_ones():
    from core.engine.metrics.clusters import map_trustworthiness

    series, _ = drifting()
    aligned = series_of(series, MapConfig(method="tsne"))
    free = unaligned(series, "tsne")
    for e in range(len(series)):
        assert map_trustworthiness(series[e], aligned[e]) > map_trustworthiness(series[e], free[e]) - 0.03


def test_procrustes_undoes_a_turn_and_a_mirror_and_keeps_every_distance():
    rng = np.random.default_rng(1)
    onto = rng.normal(size=(50, 2)).astype(np.float32)
    turn = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
    moved = (onto * [1, -1]) @ turn + 3
    np.testing.assert_allclose(maps.procrustes(moved, onto), onto, atol=1e-5)
    other = rng.normal(size=(50, 2))
    back = maps.procrustes(other, onto)
    np.testing.assert_allclose(
        np.linalg.norm(back[0] - back[1:], axis=1), np.linalg.norm(other[0] - other[1:], axis=1), rtol=1e-5
    )


@pytest.mark.slow
def test_without_align_each_epoch_is_a_fit_of_its_own():
    series, _ = drifting(60)
    config = MapConfig(method="tsne", align=False)
    found = series_of(series, config)
    np.testing.assert_array_equal(found[1], maps.fit_map(series[1], config))
