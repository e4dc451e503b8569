"""Where a heat map is outlined: one rule for results, page and exports, apart from the threshold that flags an image.

One level for all images, above which a usual normal image has 1 % of its map, is too low for an image that is odd all
over: most of it lies above. So the outline is drawn part of the way up from the usual normal map to the image's own
maximum, round places that lie above that level. How far up is learnt from lesions that are pasted into held-out
normals, of which half are first changed all over; no test image has a part in it. A place that hardly any normal image
shows, or that lies outside the region of interest, is never outlined: there is nothing to compare it with.

The rule itself needs NumPy and OpenCV alone; what learns it loads torch when it is called.
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

SEEN = 0.05  # a place that fewer of the normal images show is without comparison
SHARES = np.round(np.arange(0.1, 0.91, 0.05), 2)  # that are tried
IMAGES = 24  # held-out normals that lesions are pasted into
# Kinds of lesion with little in common, of every size and contrast; no preset of the lesion head learns from these.
PASTED = (
    "growth:growth",
    "medmix:cut",
    "medmix:soft",
    "medmix:mottle",
    "medmix:grain",
    "medmix:foreign",
    "medmix:zoom",
)
SIZES, OPACITY = (0.1, 0.6), (0.5, 1.0)  # of MedMix's lesions; sizes in parts of the side
BODY = 0.3  # of a lesion's weight: what is fainter is no part of the outline that is asked for
CHANGE, REACH = 0.02, 12  # a lesion is seen where the mean change over a REACHth of the side is larger
LEAST = 20  # pixels of a lesion
FEW = 8  # with fewer lesions that can be seen nothing is learnt
PLATEAU = 0.97  # of the best mean Dice: the lowest share that reaches it is taken, nearest to one level for all


def peaks(maps: np.ndarray, roi: np.ndarray | None, scale: PixelScale) -> np.ndarray:
    """Finds the largest value (N,) of maps (N, h, w) inside roi uint8 (N, S, S) where normal images show anything."""
    cells = comparable(maps.shape[1:], scale)[None] & np.ones(maps.shape, bool)
    if roi is not None:
        from core.engine.calibration.heatmap import counted

        cells = cells & counted(maps, roi)
    return np.asarray(np.where(cells, maps, -np.inf).max((1, 2)))


def level_of(peak: np.ndarray | float, scale: PixelScale) -> np.ndarray:
    """Computes the level at which an image with that `peak` is outlined, in the shape of `peak`.

    Runs that have no share keep one level for all images. An image that is nowhere above the threshold gets the
    threshold.
    """
    peak = np.asarray(peak, np.float64)
    if scale.share is None:
        level = scale.threshold if scale.level is None else scale.level
        return np.where(peak > scale.threshold, level, scale.threshold)
    return np.where(peak > scale.threshold, scale.lo + scale.share * (peak - scale.lo), scale.threshold)


def outlined(
    maps: np.ndarray, levels: np.ndarray | float, scale: PixelScale, valid: np.ndarray | None = None
) -> np.ndarray:
    """Outlines maps (N, H, W) at an image's own size, by the levels (N,) of `level_of`: bool (N, H, W).

    Parts above the level that nowhere rise above the scale's threshold are left out, and so is all that is not `valid`
    bool (N, H, W) or that normal images do not show.
    """
    levels = np.broadcast_to(np.asarray(levels, np.float64), len(maps))
    known = comparable(maps.shape[1:], scale)
    outlines = np.empty(maps.shape, bool)
    for i, (heat, level) in enumerate(zip(maps, levels, strict=True)):
        inside = known if valid is None else known & valid[i]
        outlines[i] = (heat > level) & inside
        if level < scale.threshold:
            outlines[i] = holding(outlines[i], (heat > scale.threshold) & inside)
    return outlines


def holding(parts: np.ndarray, spots: np.ndarray) -> np.ndarray:
    """Keeps the connected parts of a mask bool (H, W) that hold one of the `spots` bool (H, W)."""
    _, labels = cv2.connectedComponents(parts.astype(np.uint8), connectivity=8)
    return np.asarray(np.isin(labels, np.unique(labels[spots & parts])) & parts)


def seen_rows(roi: Rows, side: int) -> tuple[str, ...] | None:
    """Finds which places normal images show, from their regions of interest uint8 (N, S, S); None where all are shown.

    Returns rows of 0 and 1 of a square grid of `side` cells a side, as `PixelScale.seen` has them.
    """
    from core.engine.calibration.heatmap import usually_inside

    shown = usually_inside(roi, side) >= SEEN
    return None if shown.all() else tuple("".join(map(str, row.astype(int))) for row in shown)


def comparable(shape: tuple[int, ...], scale: PixelScale) -> np.ndarray:
    """Finds where a map or an image of that shape can be compared with normal ones: bool (H, W)."""
    if scale.seen is None:
        return np.ones(shape, bool)
    grid = np.array([[cell == "1" for cell in row] for row in scale.seen], np.uint8)
    return cv2.resize(grid, shape[::-1], interpolation=cv2.INTER_NEAREST) > 0


def not_judged(shape: tuple[int, ...], scale: PixelScale, roi: np.ndarray | None = None) -> np.ndarray:
    """Finds where nothing is said of images: bool (N, h, w), on a map's grid `shape` (N, h, w).

    That is outside of the region of interest uint8 (N, S, S), and where normal images show nothing to compare with.
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
    """Learns how far up from the usual map to its own maximum an image is outlined, in (0, 1).

    None where too little is seen. predict: maps float (n, h, w) of images uint8 (n, S, S, 3) with their regions of
    interest (n, S, S). images, roi: of held-out normals. Each of up to IMAGES of them is taken as it is and changed all
    over, twice, each time with another kind of lesion: 4 predictions an image. The share is the lowest where the mean
    Dice over all lesions is close to its highest.
    """
    from core.engine.calibration.heatmap import upsample

    chosen = np.sort(np.random.default_rng([seed, IMAGES]).permutation(len(images))[:IMAGES])
    dice = []
    for given, inside, masks in pasted(rows_of(images, chosen), rows_of(roi, chosen), seed):
        use = (masks & (inside > 0)).sum((1, 2)) >= LEAST
        if not use.any():
            continue
        given, inside, masks = given[use], inside[use], masks[use]
        cells = np.asarray(predict(given, inside))
        highest, maps = peaks(cells, inside, scale), upsample(cells, given.shape[1])
        curve = []
        for share in SHARES:
            own = scale._replace(share=float(share))
            outlines = outlined(maps, level_of(highest, own), own, inside > 0)
            truth = masks & (inside > 0)
            curve.append(2 * (outlines & truth).sum((1, 2)) / (outlines.sum((1, 2)) + truth.sum((1, 2))))
        dice.append(np.stack(curve, 1))
    every = np.concatenate(dice) if dice else np.zeros((0, len(SHARES)))
    mean = every.mean(0) if len(every) >= FEW else np.zeros(len(SHARES))
    return float(SHARES[mean >= PLATEAU * mean.max()].min()) if mean.max() > 0 else None


def pasted(images: np.ndarray, roi: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields images uint8 (n, S, S, 3), regions of interest uint8 (n, S, S) and masks bool (n, S, S) of what is pasted.

    Four times: the images given as they are, twice, then changed all over, twice; each time with one lesion in each,
    the kinds in turn.
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
        near = torch.nn.functional.avg_pool2d(change, reach, stride=1, padding=reach // 2)[:, 0]
        yield to_pixels(mixed), within.numpy(), ((alpha > BODY) & (near > CHANGE)).numpy()


def changed(x: torch.Tensor, roi: torch.Tensor, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Changes images (B, 3, S, S) in [0, 1], and their regions (B, S, S), all over, each at random.

    Brightness, contrast, tint, focus and distance become such as no normal image of the study need have.
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
