"""The rule for outlines on heat maps, used by results, page and exports. Flags use a different threshold.

An image is outlined where its heat map exceeds a level. With one level for all images, most of an image that is unusual
everywhere would be outlined. The level is therefore a fixed fraction of the way from the typical normal value to the
image's maximum. This fraction is fitted to lesions pasted into held-out normal images, both original and randomly
changed; no test image is used. Positions outside the region of interest, or that hardly any normal image shows, are
never outlined, because there is nothing to compare them with.

`level_of` and `outlined` need only NumPy and OpenCV; other functions may load torch when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import cv2
import numpy as np

from core.engine.calibration.percentiles import PixelScale
from core.engine.rows import Rows, rows_of

if TYPE_CHECKING:
    import torch

SEEN = 0.05  # fraction of normal images whose region of interest must contain a position for comparison
SHARES = np.round(np.arange(0.1, 0.91, 0.05), 2)  # candidates for `PixelScale.share`
IMAGES = 24  # largest number of held-out normal images into which lesions are pasted
# Kinds of synthetic lesions, of any size and contrast, on which no preset of the lesion head is trained.
PASTED = (
    "growth:growth",
    "medmix:cut",
    "medmix:soft",
    "medmix:mottle",
    "medmix:grain",
    "medmix:foreign",
    "medmix:zoom",
)
SIZES, OPACITY = (0.1, 0.6), (0.5, 1.0)  # ranges for MedMix's lesions; sizes relative to the image's side length
BODY = 0.3  # opacity above which a pixel belongs to the lesion mask
CHANGE, REACH = 0.02, 12  # visible pixels: mean change above CHANGE in a square of 1 / REACH of the side length
LEAST = 20  # smallest number of visible pixels of a visible lesion
FEW = 8  # number of visible lesions below which no fraction is fitted
PLATEAU = 0.97  # the lowest candidate is used whose mean Dice is at least this fraction of the best one


def peaks(maps: np.ndarray, roi: np.ndarray | None, scale: PixelScale) -> np.ndarray:
    """Returns the maxima `(N,)` of maps `(N, h, w)` over cells that are `comparable` and inside `roi` `(N, S, S)`."""
    cells = comparable(maps.shape[1:], scale)[None] & np.ones(maps.shape, bool)
    if roi is not None:
        from core.engine.calibration.heatmap import counted

        cells = cells & counted(maps, roi)
    return np.asarray(np.where(cells, maps, -np.inf).max((1, 2)))


def level_of(peak: np.ndarray | float, scale: PixelScale) -> np.ndarray:
    """Computes the outline levels of images whose maps have the maxima `peak`; returns an array of the same shape.

    Without `scale.share`, images share one level. Images with no value above the threshold get it as level.
    """
    peak = np.asarray(peak, np.float64)
    if scale.share is None:
        level = scale.threshold if scale.level is None else scale.level
        return np.where(peak > scale.threshold, level, scale.threshold)
    return np.where(peak > scale.threshold, scale.lo + scale.share * (peak - scale.lo), scale.threshold)


def outlined(
    maps: np.ndarray, levels: np.ndarray | float, scale: PixelScale, valid: np.ndarray | None = None
) -> np.ndarray:
    """Computes the outlined pixels, bool `(N, H, W)`, of maps in image resolution, given levels `(N,)` by `level_of`.

    Regions in which no value exceeds the scale's threshold are not outlined. Pixels that are not `comparable` or not
    `valid` are not outlined either.
    """
    levels = np.broadcast_to(np.asarray(levels, np.float64), len(maps))
    comparable_pixels = comparable(maps.shape[1:], scale)
    outlines = np.empty(maps.shape, bool)
    for i, (heat, level) in enumerate(zip(maps, levels, strict=True)):
        inside = comparable_pixels if valid is None else comparable_pixels & valid[i]
        outlines[i] = (heat > level) & inside
        if level < scale.threshold:
            outlines[i] = regions_containing(outlines[i], (heat > scale.threshold) & inside)
    return outlines


def regions_containing(mask: np.ndarray, spots: np.ndarray) -> np.ndarray:
    """Returns the connected regions of a mask, bool `(H, W)`, that overlap with `spots`, bool `(H, W)`."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    return np.asarray(np.isin(labels, np.unique(labels[spots & mask])) & mask)


def seen_rows(roi: Rows, side: int) -> tuple[str, ...] | None:
    """Returns which positions enough normal images show in their regions of interest, or None if all are shown.

    The result is one string of 0 and 1 for each row of a grid with `side` rows and columns, as in `PixelScale.seen`.
    """
    from core.engine.calibration.heatmap import usually_inside

    grid = usually_inside(roi, side) >= SEEN
    return None if grid.all() else tuple("".join(map(str, row.astype(int))) for row in grid)


def comparable(shape: tuple[int, ...], scale: PixelScale) -> np.ndarray:
    """Returns which positions of a grid with `shape` (H, W) are shown by enough normal images, bool `(H, W)`."""
    if scale.seen is None:
        return np.ones(shape, bool)
    grid = np.array([[cell == "1" for cell in row] for row in scale.seen], np.uint8)
    return cv2.resize(grid, shape[::-1], interpolation=cv2.INTER_NEAREST) > 0


def not_judged(shape: tuple[int, ...], scale: PixelScale, roi: np.ndarray | None = None) -> np.ndarray:
    """Returns which positions of maps with `shape` (N, h, w) are not judged, bool `(N, h, w)`.

    These positions are outside the region of interest `roi`, uint8 `(N, S, S)`, or not `comparable`.
    """
    from core.engine.calibration.heatmap import counted

    judged = np.broadcast_to(comparable(shape[1:], scale), shape)
    return ~judged if roi is None else ~(judged & counted(np.empty(shape, np.uint8), roi))


def learn_share(
    predict: Callable[[np.ndarray, np.ndarray], np.ndarray],
    images: Rows,
    roi: Rows,
    scale: PixelScale,
    seed: int = 0,
) -> float | None:
    """Fits `PixelScale.share`, the relative position of outline levels between a typical value and the maximum.

    Each of up to IMAGES images is used four times with lesions of different kinds: twice in its original form, twice
    randomly changed. The result is the lowest of SHARES whose mean Dice is close to the highest.

    Args:
        predict: Function that returns maps `(n, h, w)` of images uint8 `(n, S, S, 3)` with regions `(n, S, S)`.
        images: uint8 `(N, S, S, 3)` held-out normal images.
        roi: uint8 `(N, S, S)` regions of interest of the images.
        scale: Scale of the maps.
        seed: Random seed of the choice of images and of the lesions.

    Returns:
        The fraction, or None if too few lesions are visible.
    """
    from core.engine.calibration.heatmap import upsample

    chosen = np.sort(np.random.default_rng([seed, IMAGES]).permutation(len(images))[:IMAGES])
    dice = []
    for pasted_images, inside, masks in pasted(rows_of(images, chosen), rows_of(roi, chosen), seed):
        use = (masks & (inside > 0)).sum((1, 2)) >= LEAST
        if not use.any():
            continue
        pasted_images, inside, masks = pasted_images[use], inside[use], masks[use]
        cells = np.asarray(predict(pasted_images, inside))
        highest, maps = peaks(cells, inside, scale), upsample(cells, pasted_images.shape[1])
        curve = []
        for share in SHARES:
            candidate = scale._replace(share=float(share))
            outlines = outlined(maps, level_of(highest, candidate), candidate, inside > 0)
            truth = masks & (inside > 0)
            curve.append(2 * (outlines & truth).sum((1, 2)) / (outlines.sum((1, 2)) + truth.sum((1, 2))))
        dice.append(np.stack(curve, 1))
    all_dice = np.concatenate(dice) if dice else np.zeros((0, len(SHARES)))
    mean = all_dice.mean(0) if len(all_dice) >= FEW else np.zeros(len(SHARES))
    return float(SHARES[mean >= PLATEAU * mean.max()].min()) if mean.max() > 0 else None


def pasted(images: np.ndarray, roi: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields four batches: images uint8 `(n, S, S, 3)` with one pasted lesion each, regions and lesion masks.

    The first two batches use the original images, the last two images after a random change (`changed`). An image gets
    a different kind of lesion in each batch. Masks are bool `(n, S, S)`.
    """
    import torch

    from core.engine.augment.medmix.medmix import MedMix
    from core.engine.augment.strong import family, paste_in_turn
    from core.engine.tensors import to_batch, to_pixels

    plain, inside = to_batch(np.ascontiguousarray(images), torch.device("cpu")), torch.from_numpy(np.array(roi))
    draws = torch.Generator().manual_seed(seed)
    kinds = [family(name) for name in PASTED]
    kinds = [MedMix(k.config.replace(size=SIZES, opacity=OPACITY)) if isinstance(k, MedMix) else k for k in kinds]
    for turn in range(4):
        x, within = (plain, inside) if turn < 2 else changed(plain, inside, draws)
        mixed, alpha = paste_in_turn(kinds, x, draws, within, turn)
        reach = max(3, x.shape[-1] // REACH | 1)
        change = (mixed - x).abs().mean(1, keepdim=True)
        near = change
        for axis in (1, 0):  # the mean over a square is computed by columns, then by rows
            window, padding = [1, 1], [0, 0]
            window[axis], padding[axis] = reach, reach // 2
            near = torch.nn.functional.avg_pool2d(near, window, stride=1, padding=padding)
        yield to_pixels(mixed), within.numpy(), ((alpha > BODY) & (near[:, 0] > CHANGE)).numpy()


def changed(x: torch.Tensor, roi: torch.Tensor, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Changes brightness, contrast, tint, sharpness and zoom of images `(B, 3, S, S)` in [0, 1] at random.

    The changes may exceed the differences between normal images. Returns the images and their equally zoomed regions.
    """
    import torch
    from torch.nn import functional as F

    def even(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(len(x), *shape, generator=draws)

    y = x * even(0.75, 1.25, 1, 1, 1) * even(0.9, 1.1, 3, 1, 1)
    mean = y.mean((2, 3), keepdim=True)
    y = mean + (y - mean) * even(0.6, 1.4, 1, 1, 1)
    y = y.lerp(F.avg_pool2d(y, 5, 1, 2), even(-1, 1, 1, 1, 1))
    zoom = even(0.6, 1)
    affine = torch.cat([torch.eye(2) * zoom[:, None, None], (1 - zoom)[:, None, None] * even(-1, 1, 2, 1)], 2)
    grid = F.affine_grid(affine, list(x.shape), align_corners=False)
    inside = F.grid_sample(roi[:, None].float(), grid, align_corners=False)[:, 0] > 0.5
    y = F.grid_sample(y, grid, padding_mode="border", align_corners=False).clamp(0, 1)
    return y, inside.to(torch.uint8)
