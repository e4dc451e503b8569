"""Maps of successive epochs that can be played as one film: each starts from the one before, then Procrustes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    features: Sequence[np.ndarray] | Callable[[int], np.ndarray],
    count: int,
    config: MapConfig,
    report: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """One map per epoch: float32 (E, N, 2). `features` gives (N, D) for epoch index e, one at a time.

    With `config.align` each map starts from the one before; all are turned onto the one before.
    """
    get = features if callable(features) else features.__getitem__
    maps: list[np.ndarray] = []
    for e in range(count):
        start = maps[-1] if maps and config.align else None
        coords = fit_map(get(e), config, start)
        maps.append(procrustes(coords, maps[-1]) if maps and config.align else coords)
        if report is not None:
            report(e + 1, count)
    return np.stack(maps)


def displacement(maps: np.ndarray, which: np.ndarray | None = None) -> float:
    """Mean distance a point goes from one map to the next: maps (E, N, 2), `which` bool (N,) of the points counted."""
    moved = np.linalg.norm(np.diff(maps.astype(np.float64), axis=0), axis=2)
    return float(moved[:, which].mean() if which is not None else moved.mean())
