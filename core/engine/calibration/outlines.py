"""One rule for the outlines of heat maps in results, page and exports; images are flagged by another threshold.

A single level for all images, which 1 % of a typical normal map exceeds, is too low for an image that is unusual
everywhere, because most of its map exceeds the level. The level of an image is therefore a fixed share of the way from
a typical normal map to the image's maximum. This share is learnt from lesions pasted into held-out normals, half of
which are first changed at random; no test image is used. Positions that hardly any normal image shows, or outside the
region of interest, are never outlined, because there is nothing to compare them with.

`level_of` and `outlined` need NumPy and OpenCV only; functions that need torch load it when they are called.
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

SEEN = 0.05  # share of the normal images that must show a position for a comparison
SHARES = np.round(np.arange(0.1, 0.91, 0.05), 2)  # candidates
IMAGES = 24  # number of held-out normals into which lesions are pasted
# Different kinds of lesions, of every size and contrast; no preset of the lesion head is trained on them.
PASTED = (
    "growth:growth",
    "medmix:cut",
    "medmix:soft",
    "medmix:mottle",
    "medmix:grain",
    "medmix:foreign",
    "medmix:zoom",
)
SIZES, OPACITY = (0.1, 0.6), (0.5, 1.0)  # of MedMix's lesions; sizes as a share of the side
BODY = 0.3  # opacity above which a pixel is part of the mask
CHANGE, REACH = 0.02, 12  # a lesion is visible where the mean change over 1 / REACH of the side is larger than CHANGE
LEAST = 20  # pixels of a visible lesion
FEW = 8  # number of visible lesions below which nothing is learnt
PLATEAU = 0.97  # share of the best mean Dice; the lowest candidate that reaches it is used


def peaks(maps: np.ndarray, roi: np.ndarray | None, scale: PixelScale) -> np.ndarray:
    """Returns the maximum (N,) of maps (N, h, w) inside roi uint8 (N, S, S), at positions that normal images show."""
    cells = comparable(maps.shape[1:], scale)[None] & np.ones(maps.shape, bool)
    if roi is not None:
        from core.engine.calibration.heatmap import counted

        cells = cells & counted(maps, roi)
    return np.asarray(np.where(cells, maps, -np.inf).max((1, 2)))


def level_of(peak: np.ndarray | float, scale: PixelScale) -> np.ndarray:
    """Computes the level at which an image with the maximum `peak` is outlined, in the shape of `peak`.

    Without a share all images have the same level. An image that nowhere exceeds the threshold gets the threshold.
    """
    peak = np.asarray(peak, np.float64)
    if scale.share is None:
        level = scale.threshold if scale.level is None else scale.level
        return np.where(peak > scale.threshold, level, scale.threshold)
    return np.where(peak > scale.threshold, scale.lo + scale.share * (peak - scale.lo), scale.threshold)


def outlined(
    maps: np.ndarray, levels: np.ndarray | float, scale: PixelScale, valid: np.ndarray | None = None
) -> np.ndarray:
    """Computes the outlines, bool (N, H, W), of maps (N, H, W) in the images' size, at the levels (N,) of `level_of`.

    Regions that nowhere exceed the scale's threshold are not outlined, nor are pixels that are not `valid`, bool
    (N, H, W), or that normal images do not show.
    """
    levels = np.broadcast_to(np.asarray(levels, np.float64), len(maps))
    comparable_pixels = comparable(maps.shape[1:], scale)
    outlines = np.empty(maps.shape, bool)
    for i, (heat, level) in enumerate(zip(maps, levels, strict=True)):
        inside = comparable_pixels if valid is None else comparable_pixels & valid[i]
        outlines[i] = (heat > level) & inside
        if level < scale.threshold:
            outlines[i] = holding(outlines[i], (heat > scale.threshold) & inside)
    return outlines


def holding(mask: np.ndarray, spots: np.ndarray) -> np.ndarray:
    """Returns the connected regions of a mask bool (H, W) that contain a pixel of `spots` bool (H, W)."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    return np.asarray(np.isin(labels, np.unique(labels[spots & mask])) & mask)


def seen_rows(roi: Rows, side: int) -> tuple[str, ...] | None:
    """Returns the positions inside the regions uint8 (N, S, S) of enough normal images; None if these are all.

    The result is rows of 0 and 1 of a square grid with `side` cells per side, as in `PixelScale.seen`.
    """
    from core.engine.calibration.heatmap import usually_inside

    grid = usually_inside(roi, side) >= SEEN
    return None if grid.all() else tuple("".join(map(str, row.astype(int))) for row in grid)


def comparable(shape: tuple[int, ...], scale: PixelScale) -> np.ndarray:
    """Returns which positions of a grid `shape` (H, W) enough normal images show, by the scale: bool (H, W)."""
    if scale.seen is None:
        return np.ones(shape, bool)
    grid = np.array([[cell == "1" for cell in row] for row in scale.seen], np.uint8)
    return cv2.resize(grid, shape[::-1], interpolation=cv2.INTER_NEAREST) > 0


def not_judged(shape: tuple[int, ...], scale: PixelScale, roi: np.ndarray | None = None) -> np.ndarray:
    """Returns where images are not judged: bool (N, h, w), on a map's grid `shape` (N, h, w).

    These are positions outside the region of interest uint8 (N, S, S), and positions that are not `comparable`.
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
    """Learns the share, 0 to 1, of the way from a typical map to the image's maximum at which images are outlined.

    Each of up to IMAGES images is predicted 4 times with another kind of lesion each time: twice as it is, and twice
    after a random change of the entire image. The share is the lowest one with a mean Dice close to the highest.

    Args:
        predict: Returns maps float (n, h, w) of images uint8 (n, S, S, 3) with regions of interest (n, S, S).
        images: uint8 (N, S, S, 3), held-out normals.
        roi: uint8 (N, S, S), their regions of interest.
        scale: The scale of the maps.
        seed: Seed of the choice of images and of the lesions.

    Returns:
        The share, or None if too few lesions are visible.
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
    """Yields images uint8 (n, S, S, 3) with one lesion each, their regions of interest and masks bool (n, S, S).

    There are four batches: two of the original images, then two after a random change of each entire image (`changed`).
    In each batch, an image gets another kind of lesion.
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
        for axis in (1, 0):  # the mean over a square, by rows and columns
            window, padding = [1, 1], [0, 0]
            window[axis], padding[axis] = reach, reach // 2
            near = torch.nn.functional.avg_pool2d(near, window, stride=1, padding=padding)
        yield to_pixels(mixed), within.numpy(), ((alpha > BODY) & (near[:, 0] > CHANGE)).numpy()


def changed(x: torch.Tensor, roi: torch.Tensor, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Changes brightness, contrast, tint, focus and distance of images (B, 3, S, S) in [0, 1] at random.

    The changes may exceed the differences among normal images. Returns the images and the regions, zoomed alike.
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
