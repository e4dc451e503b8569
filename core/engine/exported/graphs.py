"""A fitted detector as one network: an image and its region of interest in, heat map and scores out.

The network contains normalisation, the encoder, the detector, its scales and the rule of the score, in float32, and
uses only operations that ONNX supports. Each graph repeats `predict` and `image_score` of its detector, and calls the
detector's functions if these accept tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.embed import inference_copy
from core.engine.calibration.heatmap import blur, upsample
from core.engine.calibration.scale import Scale
from core.engine.detectors.base import Detector
from core.engine.detectors.class_head import ClassHeadDetector
from core.engine.detectors.ensemble.ensemble import ROI, TOP, Ensemble
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.igd.igd import STRIDE as IGD_STRIDE
from core.engine.detectors.lesion_head.lesion_head import TOP as TOP_SHARES
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.mahalanobis import Mahalanobis, features_of
from core.engine.detectors.map_detector import MapDetector
from core.engine.detectors.nearest.memory import patches_of, scaled
from core.engine.detectors.nearest.nearest import Nearest
from core.engine.detectors.padim import PaDiM
from core.engine.mean_colour import MeanColour
from core.engine.registry import DETECTORS


class CannotExport(ValueError):
    """Raised for a detector that cannot be exported as a graph; the message names it and the reason."""


class Said(NamedTuple):
    """A graph's results for N images.

    map: (N, h, w). everywhere: the map before it is masked. score, score_roi: (N,), of the image and of its region.
    """

    map: Tensor
    everywhere: Tensor
    score: Tensor
    score_roi: Tensor


class Part(nn.Module):
    """Base of the graphs. images: uint8 (N, S, S, 3), for any N. roi: uint8 (N, S, S)."""

    def forward(self, images: Tensor, roi: Tensor) -> Said:
        raise NotImplementedError


class Graph(nn.Module):
    """The network that is exported: (images, roi) -> map, score, score_roi."""

    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.part = part_of(detector)

    def forward(self, images: Tensor, roi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        results = self.part(images, roi)
        return results.map, results.score, results.score_roi


def part_of(detector: Detector) -> Part:
    """Builds a detector's graph, including those of its members. Raises CannotExport if the detector has none."""
    for kind, make in PARTS.items():
        if isinstance(detector, kind):
            return make(detector)
    raise CannotExport(f"{DETECTORS.title(detector.name)} ({detector.name}) has no form as a graph: {_why(detector)}")


def _why(detector: Detector) -> str:
    if detector.name == "learnt":
        return "its map follows its base's readings; export the base, or use its safetensors here"
    return f"only {', '.join(sorted(kind.name for kind in PARTS))} and the ensembles of these do"


def exportable() -> list[str]:
    """Returns the names of the detectors that have a graph."""
    return [name for name in DETECTORS.names() if issubclass(DETECTORS.get(name), tuple(PARTS))]


class _OfMaps(Part):
    """Base of the graphs of detectors that use only the encoder's maps, so that several can share one encoder."""

    def __init__(self, detector: Any, alone: bool = True) -> None:
        """alone: whether the graph contains the encoder."""
        super().__init__()
        self.detector, self.strides = detector, tuple(detector.config.strides)
        self.encoder = inference_copy(detector.encoder) if alone else None

    def forward(self, images: Tensor, roi: Tensor) -> Said:
        assert self.encoder is not None
        return self.read(self.encoder.maps(floats(images), self.strides), roi)

    def read(self, maps: dict[int, Tensor], roi: Tensor) -> Said:
        """Computes the results of the detector's `read` and `image_score` from maps (N, C, h, w) by stride."""
        raise NotImplementedError


class _PaDiM(_OfMaps):
    def read(self, maps: dict[int, Tensor], roi: Tensor) -> Said:
        distances = self.detector.distances(maps)
        heat = blur(distances, self.detector.config.sigma * distances.shape[1] / 256)
        return Said(heat, heat, heat.flatten(1).amax(1), masked(heat, roi).flatten(1).amax(1))


class _Nearest(_OfMaps):
    def read(self, maps: dict[int, Tensor], roi: Tensor) -> Said:
        detector, memory = self.detector, self.detector.memory
        patches = patches_of(maps, self.strides)
        height, width = patches.shape[1], patches.shape[2]
        flat = scaled(patches, detector.scales).flatten(0, 2)
        closeness = (flat - memory.centre) @ memory.centred.T - memory.half_norms
        nearest = closeness.argmax(1)
        distances = (flat - memory.features[nearest]).square().sum(1).sqrt()
        weights = memory.weights(flat, distances, nearest, detector.power).view(-1, height * width)
        heat = distances.pow(detector.power).view(-1, height, width)
        smooth = blur(heat, detector.config.sigma * height / 256)
        flat_heat = heat.flatten(1)
        inside = counted(roi, height, width).flatten(1)
        scores = []
        for readings in (flat_heat, torch.where(inside, flat_heat, -1.0)):
            peak = readings.argmax(1, keepdim=True)
            scores.append((flat_heat * weights).gather(1, peak)[:, 0])
        return Said(smooth, smooth, scores[0], scores[1])


class _Mahalanobis(_OfMaps):
    def read(self, maps: dict[int, Tensor], roi: Tensor) -> Said:
        detector = self.detector
        features = features_of(maps, detector.config, None)
        heat = detector.normals["cells"].distance(features["cells"])
        smooth = blur(heat, detector.config.sigma * heat.shape[1] / 256)
        score = inside = detector.normals["pooled"].distance(features["pooled"])
        if "pooled_roi" in detector.normals:
            pooled = []
            for stride in detector.config.strides:
                weight = covered(roi, maps[stride].shape[2], maps[stride].shape[3])[:, None]
                pooled.append((maps[stride] * weight).sum((2, 3)) / weight.sum((2, 3)).clamp_min(1e-6))
            inside = detector.normals["pooled_roi"].distance(torch.cat(pooled, 1))
        return Said(smooth, smooth, score, inside)


class _ClassHead(_OfMaps):
    def read(self, maps: dict[int, Tensor], roi: Tensor) -> Said:
        cells, image = self.detector.evidence(maps)
        return Said(cells, cells, image, image)


class _LesionHead(Part):
    def __init__(self, detector: LesionHead) -> None:
        super().__init__()
        self.detector, self.net = detector, detector.net

    def forward(self, images: Tensor, roi: Tensor) -> Said:
        x = floats(images)
        logits, classes, features = self.net(x)
        classes = classes.softmax(1)
        distances = (features[:, None] - self.net.centres).square().sum(2).sqrt()
        margin = distances[:, 0] - distances[:, 1:].amin(1)
        scores = [self._score(maps, classes, margin) for maps in (logits, masked(logits, roi))]
        return Said(logits, logits, scores[0], scores[1])

    def _score(self, inside: Tensor, classes: Tensor, margin: Tensor) -> Tensor:
        """Computes the scores (N,) from summaries, as `lesion_head.summaries` does, and the weights of the rule."""
        rule = self.detector.rule
        cells = inside.shape[1] * inside.shape[2]
        total = torch.full_like(margin, rule.bias)
        shares = {f"top {share:.1%}": max(1, round(share * cells)) for share in TOP_SHARES}
        for name, weight in zip(rule.terms, rule.weights, strict=True):
            if name in shares:
                value = inside.flatten(1).topk(shares[name], 1).values.mean(1)
            elif name == "area":
                value = (inside > rule.threshold).flatten(1).float().sum(1).log1p()
            elif name == "largest component":
                value = largest_component(inside > rule.threshold).log1p()
            elif name == "class":
                odds = classes[:, 0].clamp(1e-6, 1 - 1e-6)
                value = ((1 - odds) / odds).log()
            else:
                value = margin
            total = total + weight * value
        return total


class _IGD(Part):
    def __init__(self, detector: IGD) -> None:
        super().__init__()
        self.detector, self.whole, self.local = detector, detector.whole, detector.local

    def forward(self, images: Tensor, roi: Tensor) -> Said:
        detector = self.detector
        config = detector.config
        x = floats(images)
        rec, gauss, residual = self.whole.judged(x)
        small = F.avg_pool2d(residual[:, None], IGD_STRIDE)[:, 0]
        inside = counted(roi, small.shape[1], small.shape[2]).float()
        mean_inside = (small * inside).sum((1, 2)) / inside.sum((1, 2))
        scores = [
            config.xi * error + (1 - config.xi) * gauss
            for error in (rec, rec * mean_inside / small.mean((1, 2)).clamp_min(1e-12))
        ]
        maps = residual
        if self.local is not None:
            patches, laid = self._patches(x)
            maps = config.local_share * laid + (1 - config.local_share) * residual
            cover = detector.grid.cut(roi.float()[:, None]).mean((2, 3, 4)) >= 0.5
            cover = cover | ~cover.any(1, keepdim=True)
            best = patches.amax(1), torch.where(cover, patches, -torch.inf).amax(1)
            scores = [
                config.local_share * local + (1 - config.local_share) * score
                for local, score in zip(best, scores, strict=True)
            ]
        maps = F.avg_pool2d(blur(maps, config.sigma * detector.size / 256)[:, None], IGD_STRIDE)[:, 0]
        return Said(maps, maps, scores[0], scores[1])

    def _patches(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the scores (N, P) of the patches and the heat map (N, S, S) of the local model."""
        detector, local = self.detector, self.local
        assert local is not None
        config, count = detector.config, len(detector.grid)
        rec, gauss, residual = local.judged(detector.grid.cut(x).flatten(0, 1))
        scores = (config.xi_local * rec + (1 - config.xi_local) * gauss).view(-1, count)
        return scores, detector.grid.lay(residual.view(-1, count, detector.grid.patch, detector.grid.patch))


class _Colour(nn.Module):
    """`MeanColour.distances` as a network. roi: the pixels that count; None for the whole image."""

    def __init__(self, colour: MeanColour) -> None:
        super().__init__()
        self.mean, self.precision = torch.from_numpy(colour.mean), torch.from_numpy(colour.precision)

    def forward(self, images: Tensor, roi: Tensor | None) -> Tensor:
        pixels = images.double().flatten(1, 2)  # (N, P, 3)
        mean = pixels.mean(1)
        if roi is not None:
            inside = roi.double().flatten(1)[..., None]
            count = inside.sum(1)
            mean = torch.where(count > 0, (pixels * inside).sum(1) / count.clamp_min(1), mean)
        offset = mean - self.mean
        return ((offset @ self.precision) * offset).sum(1).sqrt().float()


class _Ensemble(Part):
    known: Tensor | None

    def __init__(self, detector: Ensemble) -> None:
        super().__init__()
        self.detector = detector
        quick = {name: member for name, member in detector.members.items() if isinstance(member, MapDetector)}
        self.quick = [name for name in quick if not detector.config.members[name].side]
        shared = {name: PARTS[type(quick[name])](quick[name], alone=False) for name in self.quick}
        separate = {name: part_of(member) for name, member in detector.members.items() if name not in shared}
        self.encoder = inference_copy(quick[self.quick[0]].encoder) if shared else None
        self.members = nn.ModuleDict({**shared, **separate})
        self.colours = nn.ModuleDict({name: _Colour(colour) for name, colour in detector.colours.items()})
        mask = detector.known
        grid = None if mask is None else torch.from_numpy(upsample(mask[None], mask.shape[0])[0] >= 0.5)
        self.register_buffer("known", grid)

    def forward(self, images: Tensor, roi: Tensor) -> Said:
        detector = self.detector
        side = -(-images.shape[1] // detector.config.stride)
        results = {}
        if self.encoder is not None:
            readers: dict[str, Any] = {name: self.members[name] for name in self.quick}
            strides = {stride for reader in readers.values() for stride in reader.strides}
            maps = self.encoder.maps(floats(images), strides)
            results = {name: reader.read(maps, roi) for name, reader in readers.items()}
        for name, member in self.members.items():
            if name not in results:
                smaller = detector.config.members[name].side
                is_shrunk = smaller and images.shape[1] > smaller
                pair = (shrunk(images, smaller), shrunk(roi, smaller)) if is_shrunk else (images, roi)
                results[name] = member(*pair)
        everywhere: Tensor | float = 0.0
        for name, weight in detector.map_weights.items():
            member_map = self._on_grid(name, results[name], side)
            everywhere = everywhere + weight * _scaled(detector.map_scales[name], member_map)
        assert isinstance(everywhere, Tensor)
        heat = everywhere if self.known is None else torch.where(self.known, everywhere, 0.0)
        score = self._score(results, everywhere, images, None)
        return Said(heat, everywhere, score, self._score(results, everywhere, images, roi))

    def _on_grid(self, name: str, results: Said, side: int) -> Tensor:
        sigma = self.detector.config.members[name].blur * results.everywhere.shape[1] / 256
        maps = blur(results.everywhere, sigma)
        return F.interpolate(maps[:, None], (side, side), mode="bilinear", align_corners=False)[:, 0]

    def _score(self, results: dict[str, Said], everywhere: Tensor, images: Tensor, roi: Tensor | None) -> Tensor:
        detector, kind = self.detector, "" if roi is None else ROI
        total: Tensor | float = 0.0
        for name, weight in detector.reading_weights.items():
            if name in results:
                value = results[name].score if roi is None else results[name].score_roi
            elif name == "colour":
                region = roi if name + ROI in detector.colours else None
                value = self.colours[name if region is None else name + ROI](images, region)
            else:
                value = _sum_up(name, everywhere, roi)
            total = total + weight * _scaled(detector.reading_scales[name + kind], value)
        assert isinstance(total, Tensor)
        return total


def _sum_up(name: str, maps: Tensor, roi: Tensor | None) -> Tensor:
    """Computes a reading (N,) of an ensemble's map (N, h, w): `mean`, or `top`, the mean of the highest twentieth."""
    flat = maps.flatten(1)
    inside = torch.ones_like(flat) if roi is None else counted(roi, maps.shape[1], maps.shape[2]).flatten(1).float()
    count = inside.sum(1)
    if name == "mean":
        return (flat * inside).sum(1) / count
    highest = (TOP * count.double()).round().clamp_min(1).float()[:, None]
    cells = flat.shape[1]
    ordered = torch.where(inside > 0, flat, flat.amin(1, keepdim=True) - 1).topk(cells, 1).values
    is_highest = torch.arange(cells)[None] < highest
    return torch.where(is_highest, ordered, 0.0).sum(1) / highest[:, 0]


def _scaled(scale: Scale, values: Tensor) -> Tensor:
    return (values - scale.mean) / scale.sd


PARTS: dict[type[Detector], Callable[..., Part]] = {
    PaDiM: _PaDiM, ClassHeadDetector: _ClassHead, Nearest: _Nearest, Mahalanobis: _Mahalanobis, LesionHead: _LesionHead,
    IGD: _IGD, Ensemble: _Ensemble,
}  # fmt: skip


def floats(images: Tensor) -> Tensor:
    """Converts uint8 (N, S, S, 3) -> float32 (N, 3, S, S) in [0, 1], as `tensors.to_batch` does."""
    return images.permute(0, 3, 1, 2).float() / 255.0


def _windows(size: int, cells: int) -> np.ndarray:
    """Returns (cells, size) of 0 and 1: which pixels `F.interpolate(mode="area")` averages for each cell."""
    starts, ends = (np.arange(cells) * size) // cells, -(-(np.arange(1, cells + 1) * size) // cells)
    pixels = np.arange(size)
    return ((pixels >= starts[:, None]) & (pixels < ends[:, None])).astype(np.float32)


def _counts(roi: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Counts, in each cell of a grid, the pixels inside roi (N, S, S), as (N, h, w), and all pixels, as (h, w)."""
    rows = torch.from_numpy(_windows(int(roi.shape[1]), height))
    columns = torch.from_numpy(_windows(int(roi.shape[2]), width))
    return rows @ roi.float() @ columns.T, rows.sum(1)[:, None] * columns.sum(1)


def covered(roi: Tensor, height: int, width: int) -> Tensor:
    """Computes the share of each cell that is inside the region: roi uint8 (N, S, S) -> (N, h, w)."""
    inside, every = _counts(roi, height, width)
    return inside / every


def inside_of(roi: Tensor, height: int, width: int) -> Tensor:
    """Finds the cells that are at least half inside the region, as `heatmap.roi_at` does: bool (N, h, w)."""
    inside, every = _counts(roi, height, width)
    return 2 * inside >= every


def counted(roi: Tensor, height: int, width: int) -> Tensor:
    """Finds the cells that count, as `heatmap.counted` does: bool (N, h, w), all cells if the region is empty."""
    inside = inside_of(roi, height, width)
    return inside | ~inside.flatten(1).any(1)[:, None, None]


def masked(maps: Tensor, roi: Tensor) -> Tensor:
    """Sets each map of (N, h, w) to its minimum outside the region, as `heatmap.masked_maps` does."""
    return torch.where(inside_of(roi, maps.shape[1], maps.shape[2]), maps, maps.flatten(1).amin(1)[:, None, None])


def shrunk(pixels: Tensor, side: int) -> Tensor:
    """Shrinks uint8 (N, S, S) or (N, S, S, 3) to `side` pixels like OpenCV's INTER_AREA.

    Halves are rounded to the even number, or up if `side` is half of S.
    """
    size = int(pixels.shape[1])
    weights = torch.from_numpy(_shares(size, side))
    x = pixels.float() if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).float()
    x = weights @ x @ weights.T
    x = (x + 0.5).floor() if size == 2 * side else x.round()
    x = x.clamp(0, 255).to(torch.uint8)
    return x if pixels.ndim == 3 else x.permute(0, 2, 3, 1)


def _shares(size: int, side: int) -> np.ndarray:
    """Returns (side, size): the share of each cell that each pixel covers."""
    scale = size / side
    ends = np.arange(side + 1) * scale
    low = np.maximum(ends[:-1, None], np.arange(size))
    high = np.minimum(ends[1:, None], np.arange(1, size + 1))
    return (np.maximum(high - low, 0) / scale).astype(np.float32)


def largest_component(above: Tensor) -> Tensor:
    """Counts the cells of the largest 8-connected component: bool (N, h, w) -> float (N,), 0 if there is none.

    Each cell has the number of a component. A round copies the highest number among the neighbours to the component's
    root, then follows the roots twice (Zhang, Azad, Hu 2020). A component of n cells is complete after about log2(n)
    rounds. The rounds are unrolled, because not every runtime supports loops.
    """
    height, width = above.shape[1], above.shape[2]
    cells = height * width
    number = torch.arange(1, cells + 1).view(1, height, width) * above.long()  # 0: none
    label = F.pad(number.flatten(1), (1, 0))  # (N, 1 + cells), by number
    for _ in range(math.ceil(math.log2(cells)) + 2):
        plane = label[:, 1:].reshape(-1, 1, height, width).float()
        highest = F.max_pool2d(plane, 3, 1, 1).flatten(1).long() * above.flatten(1).long()
        nearby = F.pad(highest, (1, 0))
        label = label.scatter_reduce(1, label, nearby, "amax").maximum(nearby)
        label = label.gather(1, label)
        label = label.gather(1, label)
    sizes = torch.zeros_like(label, dtype=torch.float32)
    sizes = sizes.scatter_add(1, label, F.pad(above.flatten(1).float(), (1, 0)))
    return sizes[:, 1:].amax(1)
