"""Maps of successive epochs that can be played as one film: each starts from the one before, then Procrustes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from core.studio.clusters.config import MapConfig
from core.studio.clusters.maps import fit_map


def procrustes(coords: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Turn (and mirror) coords (N, 2) so that its points lie as near as can be to `onto`'s: float32 (N, 2).

    Only a rotation or reflection, found by the singular value decomposition (Schoenemann 1966): the scale of every map
    is already one, and changing it would hide that features spread or collapse.
    """
    a, b = coords.astype(np.float64), onto.astype(np.float64)
    u, _, vt = np.linalg.svd((a - a.mean(0)).T @ (b - b.mean(0)))
    return ((a - a.mean(0)) @ (u @ vt) + b.mean(0)).astype(np.float32)


def fit_series(
    features: Iterable[np.ndarray],
    config: MapConfig,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (features (N, D), map float32 (N, 2)) of each epoch; the features of one epoch are asked for at a time.

    With `config.align` each map starts from the one before and is turned onto it. on_progress(epoch index, iterations
    done, iterations in all) is called while a map is fitted.
    """
    before = None
    for e, found in enumerate(features):
        start = before if config.align else None
        coords = fit_map(found, config, start, None if on_progress is None else functools.partial(on_progress, e))
        before = coords if start is None else procrustes(coords, start)
        yield found, before


def displacement(maps: np.ndarray, which: np.ndarray | None = None) -> float:
    """Mean distance a point goes from one map to the next: maps (E, N, 2), `which` bool (N,) of the points counted."""
    moved = np.linalg.norm(np.diff(maps.astype(np.float64), axis=0), axis=2)
    return float(moved[:, which].mean() if which is not None else moved.mean())
