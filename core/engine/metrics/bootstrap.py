"""Bootstrap confidence intervals of the detection and localisation metrics.

Images, not pixels, are drawn with replacement, separately for normal and abnormal images, so that every sample contains
both. A sample is stored as counts, one per image; matrix products give the metrics of all samples at once.
"""

from __future__ import annotations

import numpy as np

from core.engine.metrics.localisation import LIMIT

BINS = 512  # number of histogram bins, each with about equally many pixels; used for confidence intervals only
MOST_COUNTS = 2**24  # largest number of matrix entries that are processed at once
MOST_PIXELS = 4_000_000  # approximate number of pixels outside lesions that are used; of more pixels, every k-th is


def bootstrap_counts(groups: np.ndarray, times: int, seed: int, patients: np.ndarray | None = None) -> np.ndarray:
    """Draws bootstrap samples; returns how often each sample contains each image, float32 `(times, N)`.

    Args:
        groups: `(N,)` labels of the images; samples have the same number of images with each label as the data.
        times: Number of bootstrap samples.
        seed: Random seed.
        patients: `(N,)` patients of the images, or None to draw single images. Images of one patient are not
            independent, so whole patients are drawn, separately for each highest label of a patient's images.
    """
    if patients is not None:
        _, owner = np.unique(patients, return_inverse=True)
        kinds = np.full(owner.max() + 1, np.min(groups))
        np.maximum.at(kinds, owner, groups)
        return bootstrap_counts(kinds, times, seed)[:, owner]
    rng = np.random.default_rng(seed)
    counts = np.zeros((times, len(groups)), np.float32)
    for kind in np.unique(groups):
        members = np.flatnonzero(groups == kind)
        counts[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=times)
    return counts


def interval(values: np.ndarray, level: float = 0.95) -> list[float] | None:
    """Returns the percentile interval `[low, high]` of bootstrap values, or None if no value is finite."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    return [float(v) for v in np.quantile(values, [(1 - level) / 2, (1 + level) / 2])]


def interval_of_mean(
    values: np.ndarray, patients: np.ndarray | None = None, times: int = 2000
) -> tuple[float, float] | None:
    """Returns the 95 % bootstrap interval of the mean of `values` `(N,)`, over whole `patients` `(N,)` if given."""
    bounds = interval(means(values, bootstrap_counts(np.ones(len(values), int), times, 0, patients)))
    return None if bounds is None else (bounds[0], bounds[1])


def means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes the means of `values` `(N,)` in bootstrap samples `counts` `(times, N)`: float64 `(times,)`."""
    with np.errstate(invalid="ignore"):  # the mean of an empty sample is NaN, which `interval` ignores
        return counts @ values.astype(np.float64) / counts.sum(1)


def aurocs(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Computes the AUROC of each bootstrap sample, with ties counting half.

    `below` and `above`, both `(times, K)`, are histograms of the normal and the abnormal values over K ascending bins.
    """
    reached = np.cumsum(below, 1, dtype=np.float64) - below / 2
    return (above * reached).sum(1) / (below.sum(1, dtype=np.float64) * above.sum(1, dtype=np.float64))


def detection(scores: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns exact AUROCs and average precisions of samples, given scores, labels `(N,)` and counts `(times, N)`."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan))
    abnormal = labels[order].astype(bool)
    block = max(1, MOST_COUNTS // len(scores))
    figures = [_detection(counts[i : i + block, order], abnormal, starts) for i in range(0, len(counts), block)]
    areas, precisions = zip(*figures, strict=True)
    return np.concatenate(areas), np.concatenate(precisions)


def _detection(counts: np.ndarray, abnormal: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    above = np.add.reduceat(counts * abnormal, starts, axis=1)
    every = np.add.reduceat(counts, starts, axis=1)
    hits = np.cumsum(above[:, ::-1], 1)
    flagged = np.maximum(np.cumsum(every[:, ::-1], 1), 1)  # scores absent from the sample add nothing
    precision = (hits / flagged * above[:, ::-1]).sum(1) / above.sum(1)
    return aurocs(every - above, above), precision


def histograms(maps: np.ndarray, weights: np.ndarray, healthy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each image's sum of weights and number of healthy pixels per bin of map values: two `(N, BINS)`.

    `maps`, `weights` and the bool mask `healthy` are `(N, S, S)`; the weights are 0 outside lesions.
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
    """Computes the PRO (per-region overlap) of each bootstrap sample that contains a lesion region.

    `heavy` and `light`, both `(times, K)`, are sums of lesion weights and numbers of healthy pixels in K ascending
    bins; `regions` `(times,)` is the number of lesion regions per sample, and `limit` the largest false positive rate.
    """
    usable = regions > 0
    heavy, light, regions = heavy[usable], light[usable], regions[usable]
    overlap = np.cumsum(heavy[:, ::-1], 1, dtype=np.float64) / regions[:, None]
    step = light[:, ::-1].astype(np.float64)
    with np.errstate(invalid="ignore"):  # NaN without healthy pixels, which `interval` ignores
        step /= step.sum(1, keepdims=True)
    false = np.cumsum(step, 1)
    # The curve is integrated bin by bin, up to the limit of the false positive rate.
    start = np.concatenate([np.zeros((len(step), 1)), overlap[:, :-1]], 1)
    width = np.clip(limit - (false - step), 0, step)
    rise = np.divide(width, step, out=np.zeros_like(step), where=step > 0) * (overlap - start)
    return (width * (start + rise / 2)).sum(1) / limit
