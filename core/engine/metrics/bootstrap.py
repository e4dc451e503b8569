"""Bootstrap intervals of the detection and localisation figures.

Images, not pixels, are resampled with replacement, separately among normal and abnormal ones, so that every resample
has both. A resample is a row of counts, and the figures of all resamples are computed at once as matrix products.
"""

from __future__ import annotations

import numpy as np

from core.engine.metrics.localisation import LIMIT

BINS = 512  # number of bins of equal rank for pixel values; used for intervals only
MOST_COUNTS = 2**24  # entries of the matrix of counts that are processed together
MOST_PIXELS = 4_000_000  # pixels outside lesions; a regular subset is used if there are more


def draws(groups: np.ndarray, times: int, seed: int, patients: np.ndarray | None = None) -> np.ndarray:
    """Resamples images: returns how often each image is in each resample, float32 (times, N).

    Args:
        groups: (N,), the label of each image; each resample keeps the number of images of each label.
        times: Number of resamples.
        seed: Seed of the resamples.
        patients: (N,), the patient of each image. Images of one patient are not independent, so whole patients are
            resampled, patients with an image of the highest label separately from the others.
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
    """Computes the percentile interval [lo, hi] of bootstrap values, None if no value is finite."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    return [float(v) for v in np.quantile(values, [(1 - level) / 2, (1 + level) / 2])]


def interval_of_mean(
    values: np.ndarray, patients: np.ndarray | None = None, times: int = 2000
) -> tuple[float, float] | None:
    """Computes the 95 % bootstrap interval of the mean of values (N,); resamples patients (N,), or images if None."""
    bounds = interval(means(values, draws(np.ones(len(values), int), times, 0, patients)))
    return None if bounds is None else (bounds[0], bounds[1])


def means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes the mean of values (N,) in each resample, (times,), from counts (times, N)."""
    with np.errstate(invalid="ignore"):  # an empty resample is NaN, which `interval` ignores
        return counts @ values.astype(np.float64) / counts.sum(1)


def aurocs(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Computes the AUROC of each resample, with ties counting half.

    below, above: (times, K), histograms of the normal and of the abnormal values over ascending bins.
    """
    reached = np.cumsum(below, 1, dtype=np.float64) - below / 2
    return (above * reached).sum(1) / (below.sum(1, dtype=np.float64) * above.sum(1, dtype=np.float64))


def detection(scores: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes the exact AUROC and average precision of each resample: scores, labels (N,), counts (times, N)."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan))
    abnormal = labels[order].astype(bool)
    block = max(1, MOST_COUNTS // len(scores))
    figures = [_detection(counts[i : i + block, order], abnormal, starts) for i in range(0, len(counts), block)]
    areas, precisions = zip(*figures, strict=True)
    return np.concatenate(areas), np.concatenate(precisions)


def _detection(counts: np.ndarray, abnormal: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes `detection` for images sorted by score. starts: indices at which a new score begins."""
    above = np.add.reduceat(counts * abnormal, starts, axis=1)
    every = np.add.reduceat(counts, starts, axis=1)
    hits = np.cumsum(above[:, ::-1], 1)
    flagged = np.maximum(np.cumsum(every[:, ::-1], 1), 1)  # a score that is not in the resample adds nothing
    precision = (hits / flagged * above[:, ::-1]).sum(1) / above.sum(1)
    return aurocs(every - above, above), precision


def histograms(maps: np.ndarray, weights: np.ndarray, healthy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums up weights and counts healthy pixels by bin of the maps' values: two arrays float32 (N, BINS).

    maps, weights: float (N, S, S). healthy: bool (N, S, S).
    """
    n = len(maps)
    flat, weights, healthy = (x.reshape(n, -1) for x in (maps, weights, healthy))
    stride = max(1, flat.size // MOST_PIXELS)
    sample = flat.ravel()[:: max(1, flat.size // 200_000)]
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, BINS + 1)[1:-1]))
    owner, where = np.nonzero(weights)
    cell = owner * BINS + np.searchsorted(edges, flat[owner, where])
    heavy = np.bincount(cell, weights[owner, where], minlength=n * BINS)
    thin = np.arange(0, flat.shape[1], stride)
    cell = np.searchsorted(edges, flat[:, thin]) + np.arange(n)[:, None] * BINS
    light = np.bincount(cell[healthy[:, thin]], minlength=n * BINS) * stride
    return heavy.reshape(n, BINS).astype(np.float32), light.reshape(n, BINS).astype(np.float32)


def pros(heavy: np.ndarray, regions: np.ndarray, light: np.ndarray, limit: float = LIMIT) -> np.ndarray:
    """Computes the PRO of each resample that has a region.

    heavy, light: (times, K), region weights and healthy pixels of the images of each resample, by ascending bin.
    regions: (times,), the number of regions in each resample.
    """
    usable = regions > 0
    heavy, light, regions = heavy[usable], light[usable], regions[usable]
    overlap = np.cumsum(heavy[:, ::-1], 1, dtype=np.float64) / regions[:, None]
    step = light[:, ::-1].astype(np.float64)
    with np.errstate(invalid="ignore"):  # without a healthy pixel it is NaN, which `interval` ignores
        step /= step.sum(1, keepdims=True)
    false = np.cumsum(step, 1)
    # The area under each bin's segment of the curve, up to the limit of the false positive rate.
    start = np.concatenate([np.zeros((len(step), 1)), overlap[:, :-1]], 1)
    width = np.clip(limit - (false - step), 0, step)
    rise = np.divide(width, step, out=np.zeros_like(step), where=step > 0) * (overlap - start)
    return (width * (start + rise / 2)).sum(1) / limit
