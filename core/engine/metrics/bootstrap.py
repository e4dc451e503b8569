"""Bootstrap intervals: what the figures would be had other images been drawn.

Images are drawn again, never pixels, with replacement and within normal and abnormal each, so that neither kind can
go missing. Every draw is a row of counts, and all draws are computed at once as matrix products.
"""

from __future__ import annotations

import numpy as np

from core.engine.metrics.localisation import LIMIT

BINS = 512  # pixel values are put into so many bins of equal rank; for intervals alone, never for a figure
MOST_COUNTS = 2**24  # of images drawn that are looked at together
MOST_PIXELS = 4_000_000  # of those in no lesion, more than this are thinned out evenly


def draws(groups: np.ndarray, times: int, seed: int, patients: np.ndarray | None = None) -> np.ndarray:
    """Draws images again `times` times: float32 (times, N), how often each image is drawn.

    groups (N,): kind of each image; kinds keep their size.
    patients (N,): whose image each is; they are then drawn as a whole, those with an image of the highest kind apart
    from the others, for images of one patient are no new evidence.
    """
    if patients is not None:
        _, owner = np.unique(patients, return_inverse=True)
        kinds = np.full(owner.max() + 1, np.min(groups))
        np.maximum.at(kinds, owner, groups)
        return draws(kinds, times, seed)[:, owner]
    rng = np.random.default_rng(seed)
    counts = np.zeros((times, len(groups)), np.float32)
    for kind in np.unique(groups):
        members = np.flatnonzero(groups == kind)
        counts[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=times)
    return counts


def interval(values: np.ndarray, level: float = 0.95) -> list[float] | None:
    """Computes the percentile interval [lo, hi] of bootstrap values; None without a finite one."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    return [float(v) for v in np.quantile(values, [(1 - level) / 2, (1 + level) / 2])]


def interval_of_mean(
    values: np.ndarray, patients: np.ndarray | None = None, times: int = 2000
) -> tuple[float, float] | None:
    """Computes the 95 % interval of the mean of values (N,), drawing patients (N,), or images, again."""
    bounds = interval(means(values, draws(np.ones(len(values), int), times, 0, patients)))
    return None if bounds is None else (bounds[0], bounds[1])


def means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes the mean in each draw: values (N,), counts (times, N) -> (times,)."""
    with np.errstate(invalid="ignore"):  # a draw may hold none of them: NaN, which `interval` leaves out
        return counts @ values.astype(np.float64) / counts.sum(1)


def aurocs(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Computes the AUROC of each draw, ties counting half.

    below, above (times, K): histograms over ascending bins, of normal and of abnormal.
    """
    reached = np.cumsum(below, 1, dtype=np.float64) - below / 2
    return (above * reached).sum(1) / (below.sum(1, dtype=np.float64) * above.sum(1, dtype=np.float64))


def detection(scores: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes AUROC and average precision of each draw, both exact: scores, labels (N,), counts (times, N)."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan))
    abnormal = labels[order].astype(bool)
    some = max(1, MOST_COUNTS // len(scores))
    parts = [_detection(counts[i : i + some, order], abnormal, starts) for i in range(0, len(counts), some)]
    areas, precisions = zip(*parts, strict=True)
    return np.concatenate(areas), np.concatenate(precisions)


def _detection(drawn: np.ndarray, abnormal: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of images by ascending score: drawn (times, N), abnormal bool (N,), starts: where each new score begins."""
    above = np.add.reduceat(drawn * abnormal, starts, axis=1)
    every = np.add.reduceat(drawn, starts, axis=1)
    hits = np.cumsum(above[:, ::-1], 1)
    flagged = np.maximum(np.cumsum(every[:, ::-1], 1), 1)  # a score that was never drawn adds nothing
    precision = (hits / flagged * above[:, ::-1]).sum(1) / above.sum(1)
    return aurocs(every - above, above), precision


def histograms(maps: np.ndarray, weights: np.ndarray, healthy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums weights, and counts healthy pixels, by bin of the maps' values: two float32 (N, BINS).

    maps, weights float (N, S, S), healthy bool.
    """
    n = len(maps)
    flat, weights, healthy = (x.reshape(n, -1) for x in (maps, weights, healthy))
    stride = max(1, flat.size // MOST_PIXELS)
    some = flat.ravel()[:: max(1, flat.size // 200_000)]
    edges = np.unique(np.quantile(some, np.linspace(0, 1, BINS + 1)[1:-1]))
    owner, where = np.nonzero(weights)
    cell = owner * BINS + np.searchsorted(edges, flat[owner, where])
    heavy = np.bincount(cell, weights[owner, where], minlength=n * BINS)
    thin = np.arange(0, flat.shape[1], stride)
    cell = np.searchsorted(edges, flat[:, thin]) + np.arange(n)[:, None] * BINS
    light = np.bincount(cell[healthy[:, thin]], minlength=n * BINS) * stride
    return heavy.reshape(n, BINS).astype(np.float32), light.reshape(n, BINS).astype(np.float32)


def pros(heavy: np.ndarray, regions: np.ndarray, light: np.ndarray, limit: float = LIMIT) -> np.ndarray:
    """Computes PRO of each draw; draws without a region are left out.

    heavy, light (times, K): region weights and healthy pixels by ascending bin, in the images of each draw; regions
    (times,): how many they hold.
    """
    some = regions > 0
    heavy, light, regions = heavy[some], light[some], regions[some]
    overlap = np.cumsum(heavy[:, ::-1], 1, dtype=np.float64) / regions[:, None]
    step = light[:, ::-1].astype(np.float64)
    with np.errstate(invalid="ignore"):  # a draw may hold no healthy pixel: NaN, which `interval` leaves out
        step /= step.sum(1, keepdims=True)
    false = np.cumsum(step, 1)
    # each bin's strip, cut where the false positive rate passes the limit; its line rises from the bin before
    start = np.concatenate([np.zeros((len(step), 1)), overlap[:, :-1]], 1)
    width = np.clip(limit - (false - step), 0, step)
    rise = np.divide(width, step, out=np.zeros_like(step), where=step > 0) * (overlap - start)
    return (width * (start + rise / 2)).sum(1) / limit
