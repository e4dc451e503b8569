"""From marked and normal images to a discriminant: two passes of the encoder, memory that does not grow with them.

The first pass sums moments of cells: of normal images, and of each fold of marked ones. The second reads marked images
by the discriminants that have not seen their fold, and normal images that nothing was learnt from by all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.engine.backbones.encoder import Encoder
from core.engine.backbones.inference import inference_copy
from core.engine.calibration.heatmap import blur, cells_inside, roi_at, upsample
from core.engine.calibration.scale import leave_out
from core.engine.detectors.base import Detector, FitContext, Marks
from core.engine.detectors.map_detector import maps_of
from core.engine.detectors.marked.cells import chosen_channels, covered, joined
from core.engine.detectors.marked.choice import Folds, Rule, choose, folds, mixed
from core.engine.detectors.marked.config import MarkedConfig
from core.engine.detectors.marked.discriminant import Discriminant, Moments, discriminant
from core.engine.progress import Stopped

EVERY = 3  # of a normal image's cells, one is learnt from: neighbours say the same
UNSEEN = 0.15  # share of normal images that set scales alone, where the base does not say which it left out


@dataclass(frozen=True)
class Learnt:
    """A discriminant of cells, and the scale of its blurred map on unseen normal images: mean and deviation.

    channels: places of the joined features that it reads, or None for all.
    """

    of: Discriminant
    channels: torch.Tensor | None
    mean: float
    deviation: float


@dataclass(frozen=True)
class Scales:
    """Mean and deviation of the base's map on unseen normal images, and the deviation of the standardised mixture."""

    mean: float = 0.0
    deviation: float = 1.0
    mixture: float = 1.0


def blurred(heat: Tensor, sigma: float) -> Tensor:
    """(..., h, w), sigma in pixels at 256 x 256."""
    flat = heat.reshape(-1, *heat.shape[-2:])
    return blur(flat, sigma * heat.shape[-2] / 256).reshape(heat.shape)


def on_one_grid(base: np.ndarray, learnt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maps (N, h, w) and (N, h', w'), both on the finer of the two grids."""
    shape = tuple(np.maximum(base.shape[1:], learnt.shape[1:]).tolist())
    return upsample(base, shape), upsample(learnt, shape)


@torch.inference_mode()
def learn(
    base: Detector, encoder: Encoder, images: np.ndarray, marks: Marks, config: MarkedConfig, context: FitContext
) -> tuple[Rule, Learnt | None, Scales]:
    """images uint8 (N, S, S, 3), normal, those that the base was fitted on. Raises Stopped if asked to stop."""
    of = folds(len(marks.images), config.folds, config.seed, marks.patients)
    unseen = unseen_normals(base, len(images), config.seed, context.patients)
    cells = Cells(inference_copy(encoder), config, context, len(images) + 2 * len(marks.images))
    normal, healthy, lesion = _moments(cells, images, np.setdiff1d(np.arange(len(images)), unseen), marks, of, context)
    made: list[Discriminant] = []  # of each fold by each shrinkage, then of all folds
    for left in [*range(of.max() + 1), None]:
        seen = [i for i in range(of.max() + 1) if i != left]
        parts = (normal, Moments.total([healthy[i] for i in seen]), Moments.total([lesion[i] for i in seen]))
        made += [discriminant(*parts, shrinkage) for shrinkage in config.shrinkages]
    rows, around = np.array(images[unseen]), context.of(unseen)
    normal_maps, marked_maps = cells.scored(rows, made), cells.scored(marks.images, made)
    shape = normal_maps.shape[2:]
    means, deviations = np.array([_moments_inside(maps, around.roi) for maps in normal_maps]).T
    for maps in (normal_maps, marked_maps):
        maps -= means[:, None, None, None].astype(np.float32)
        maps /= deviations[:, None, None, None].astype(np.float32)
    base_normal = _base_maps(base, rows, around.roi, context)
    base_marked = _base_maps(base, marks.images, marks.roi, context)
    mean, deviation = _moments_inside(base_normal, around.roi)
    base_normal, base_marked = (base_normal - mean) / deviation, (base_marked - mean) / deviation
    inside = np.ones((len(of), *shape), bool) if marks.roi is None else roi_at(marks.roi, shape)
    tried = Folds(
        of, upsample(base_marked, shape), upsample(base_normal, shape), covered(marks.masks, shape)[0], inside,
        around.roi, around.patients,
    )  # fmt: skip
    kinds, each = len(config.shrinkages), np.arange(len(of))
    options = {
        s: (marked_maps[of * kinds + i, each], normal_maps[i::kinds][:-1]) for i, s in enumerate(config.shrinkages)
    }
    rule = choose(tried, options, config.shares)
    if not rule.share:
        return rule, None, Scales()
    last = len(made) - kinds + config.shrinkages.index(rule.shrinkage)
    mixture = mixed(*on_one_grid(base_normal, normal_maps[last]), rule.share)
    learnt = Learnt(made[last], cells.channels, float(means[last]), float(deviations[last]))
    return rule, learnt, Scales(mean, deviation, _moments_inside(mixture, around.roi)[1])


def unseen_normals(base: Detector, count: int, seed: int, patients: np.ndarray | None) -> np.ndarray:
    """Places, among the `count` normal images of the fit, of those that the base left out; else of some drawn."""
    kept = getattr(base, "kept", None)
    if isinstance(kept, np.ndarray) and len(kept) < count and kept.max() < count:
        return np.setdiff1d(np.arange(count), kept)
    return leave_out(count, max(2, round(UNSEEN * count)), seed, patients)[1]


class Cells:
    """Cells of images, batch by batch, with reports and stops."""

    def __init__(self, reader: Encoder, config: MarkedConfig, context: FitContext, total: int) -> None:
        self.reader, self.config, self.context, self.total, self.done = reader, config, context, total, 0
        self.channels: Tensor | None = None

    def batches(self, images: np.ndarray, places: np.ndarray) -> Iterator[tuple[np.ndarray, Tensor]]:
        """(places, cells (B, h, w, D)) of the images at `places`."""
        config, context = self.config, self.context
        for start in range(0, len(places), config.batch):
            if context.should_stop is not None and context.should_stop():
                raise Stopped("learning was stopped; it starts again from the first image")
            part = places[start : start + config.batch]
            maps = maps_of(self.reader, np.array(images[part]), set(config.strides))
            if self.channels is None:
                self.channels = chosen_channels(sum(m.shape[1] for m in maps.values()), config.channels, config.seed)
            yield part, joined(maps, config.strides, config.grid, self.channels)
            self.done += len(part)
            if context.report is not None:
                context.report({"step": min(self.done, self.total), "steps": self.total})

    def scored(self, images: np.ndarray, by: list[Discriminant]) -> np.ndarray:
        """Blurred maps float32 (K, N, h, w) of all images by K discriminants."""
        weights = torch.stack([one.weights for one in by], 1).to(self.reader.mean.device)  # (D, K)
        offset = torch.stack([one.middle @ one.weights for one in by]).to(weights.device)
        found = [
            blurred((cells @ weights - offset).permute(3, 0, 1, 2), self.config.sigma).cpu()
            for _, cells in self.batches(images, np.arange(len(images)))
        ]
        return torch.cat(found, 1).numpy()


def _moments(
    cells: Cells, images: np.ndarray, seen: np.ndarray, marks: Marks, of: np.ndarray, context: FitContext
) -> tuple[Moments, list[Moments], list[Moments]]:
    """Of normal images at places `seen`, and of healthy and lesion cells of each fold of the marked ones."""
    normal: Moments | None = None
    for part, x in cells.batches(images, seen):
        normal = normal or Moments.empty(x.shape[-1])
        rows = x if context.roi is None else x[torch.from_numpy(roi_at(context.roi[part], x.shape[1:3])).to(x.device)]
        some = rows.reshape(-1, x.shape[-1])[::EVERY]
        normal.add(some, len(some))
    assert normal is not None
    healthy, lesion = ([Moments.empty(len(normal.sum)) for _ in range(of.max() + 1)] for _ in "hl")
    for part, x in cells.batches(marks.images, np.arange(len(marks.images))):
        hit, free = covered(marks.masks[part], (x.shape[1], x.shape[2]))
        inside = np.ones(hit.shape, bool) if marks.roi is None else roi_at(marks.roi[part], x.shape[1:3])
        for i, fold in enumerate(of[part]):
            found = hit[i] & inside[i] if (hit[i] & inside[i]).any() else hit[i]
            lesion[fold].add(x[i][torch.from_numpy(found).to(x.device)], 1.0)
            healthy[fold].add(x[i][torch.from_numpy(free[i] & inside[i]).to(x.device)], 1.0)
    return normal, healthy, lesion


def _moments_inside(maps: np.ndarray, roi: np.ndarray | None) -> tuple[float, float]:
    """Mean and deviation, above 0, of maps (N, h, w) inside the region of interest."""
    values = cells_inside(maps, roi)
    return float(values.mean()), max(1e-6, float(values.std()))


def _base_maps(base: Detector, images: np.ndarray, roi: np.ndarray | None, context: FitContext) -> np.ndarray:
    """The base's maps (N, h, w), read in parts so that a stop is heard."""
    parts = []
    for start in range(0, len(images), 32):
        if context.should_stop is not None and context.should_stop():
            raise Stopped("learning was stopped; it starts again from the first image")
        rows = slice(start, start + 32)
        parts.append(base.predict(np.array(images[rows]), roi=None if roi is None else roi[rows]).maps)
    return np.concatenate(parts)
