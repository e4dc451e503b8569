"""A small decoder on a frozen encoder's maps, taught with marked images, with their lesions pasted into normal images,
and with plain normal ones.

Every view is drawn anew and read by the encoder once; the decoders of all folds learn from it side by side, each from
the views of those marks that are not left out for it, so that cross-validation costs little more than one training.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.augment.medmix.donors import pasted
from core.engine.backbones.encoder import Encoder
from core.engine.detectors.base import Marks
from core.engine.detectors.learnt.config import LearntConfig
from core.engine.tensors import to_batch
from core.engine.training.schedule import parameter_groups

STRIDES = (4, 8, 16, 32)
VIEW = 224  # pixels, the side of a view
NEAR = 0.7  # of the parts of larger images that are views: round a lesion, if there is one
DRAWN = 100  # steps whose views are drawn anew; they are then shown again, in another order
TURN, ZOOM, SHIFT = 180.0, (0.7, 1.4), 0.09  # degrees; factor; of the side
LOUD = {4: 7.0, 8: 6.5, 16: 5.5, 32: 2.5}  # deviation of each map, about as EfficientNet-lite0 has them
DROP, NOISE = 0.2, 0.3  # share of channels; deviation of their shift, in their own
CALMER = 0.4  # of the decoder's rate, where the encoder learns with it
STILL = 8  # stride up to which an encoder that learns too stays as it is: half of the work, edges and colours
MARKED, PASTED, NORMAL = 4, 2, 2  # views of a step that a decoder learns from
Check = Callable[[float], None]  # called with the part that is done, 0 to 1; raises Stopped when asked to stop


class Decoder(nn.Module):
    """A decoder that fuses maps of strides 4 to 32 top down to logits (B, 1 + kinds, S/4, S/4).

    They tell lesion or not, then which kind. The finest level, which holds most of the cells, has half the width. A map
    is taken at the scale that EfficientNet-lite0 gives it, LOUD, by one factor for all of its channels: with each
    channel, or all of them, at deviation 1, outlines were 0.04 to 0.05 Dice worse on few marks. While it learns,
    channels are dropped and shifted at random. mean{s}, deviation{s}: of each channel over the first views.
    """

    def __init__(self, widths: dict[int, int], width: int, kinds: int = 0) -> None:
        super().__init__()
        wide = {s: width if s > STRIDES[0] else width // 2 for s in STRIDES}
        self.lateral = nn.ModuleDict({str(s): nn.Conv2d(widths[s], wide[s], 1) for s in STRIDES})
        self.mix = nn.ModuleDict({str(s): _mixing(wide[s]) for s in STRIDES})
        self.narrow = nn.Conv2d(width, width // 2, 1)
        self.out = nn.Conv2d(width // 2, 1 + kinds, 3, padding=1)
        assert self.out.bias is not None
        nn.init.constant_(self.out.bias, -2.0)  # few cells are lesion
        for s in STRIDES:
            self.register_buffer(f"mean{s}", torch.zeros(widths[s], 1, 1))
            self.register_buffer(f"deviation{s}", torch.ones(widths[s], 1, 1))
        self.draws = torch.Generator().manual_seed(0)  # on the CPU, so that every device draws alike
        self.encoder: Encoder | None = None  # its own, where that learns too

    def standardise(self, maps: dict[int, Tensor]) -> None:
        """Takes each channel's mean and deviation from maps (N, C, h, w) by stride."""
        for s in STRIDES:
            x = maps[s].float()
            getattr(self, f"mean{s}").copy_(x.mean((0, 2, 3))[:, None, None])
            getattr(self, f"deviation{s}").copy_(x.std((0, 2, 3)).clamp_min(1e-4)[:, None, None])

    def forward(self, maps: dict[int, Tensor]) -> Tensor:
        y: Tensor | None = None
        for s in sorted(STRIDES, reverse=True):
            z = self.lateral[str(s)](self._taken(maps[s].float(), s))
            if y is not None:
                y = self.narrow(y) if s == STRIDES[0] else y
                z = z + F.interpolate(y, size=z.shape[-2:], mode="bilinear", align_corners=False)
            y = self.mix[str(s)](z)
        return self.out(y)

    def _taken(self, x: Tensor, s: int) -> Tensor:
        deviation = getattr(self, f"deviation{s}")
        if self.training:
            x = x + NOISE * deviation * torch.randn(len(x), x.shape[1], 1, 1, generator=self.draws).to(x)
            keep = torch.rand(len(x), x.shape[1], 1, 1, generator=self.draws) >= DROP
            x = x * keep.to(x) / (1 - DROP)
        return x * (LOUD[s] / deviation.mean())


def _mixing(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.SiLU())


@dataclass
class Views:
    """B views of one step. maps: float16 by stride. target float, ignored bool, kinds int64 (B, S, S): lesion
    or not, whether it is unknown, and which kind, from 1, 0 where none is. part (B,): the fold of the mark that a
    view, or the lesion in it, comes from, -1 for none.
    """

    maps: dict[int, Tensor]
    target: Tensor
    ignored: Tensor
    kinds: Tensor
    part: Tensor
    images: np.ndarray

    def of(self, rows: Tensor) -> Views:
        return Views(
            {s: m[rows] for s, m in self.maps.items()}, self.target[rows], self.ignored[rows], self.kinds[rows],
            self.part[rows], self.images[rows.cpu().numpy()],
        )  # fmt: skip


class Lessons:
    """Draws the views of each step: of every fold so many that each decoder has MARKED, PASTED and NORMAL ones."""

    def __init__(
        self, reader: Encoder, normals: np.ndarray, roi: np.ndarray | None, marks: Marks, config: LearntConfig,
        parts: list[np.ndarray],
    ) -> None:  # fmt: skip
        """normals uint8 (N, S, S, 3) with regions of interest (N, S, S) or None; marks at the same side. parts: places
        of the marked images of each fold; one where nothing is left out.
        """
        self.reader, self.normals, self.roi, self.marks, self.config = reader, normals, roi, marks, config
        self.draw = np.random.default_rng([config.seed, 7])
        self.drawn: list[Views] = []  # that have been shown
        others = max(len(parts) - 1, 1)
        count = -(-MARKED // others), -(-PASTED // others)
        roles = ["marked"] * count[0] + ["pasted" if config.paste else "marked"] * count[1]
        self.plan = [(role, number) for number in range(len(parts)) for role in roles] + [("normal", -1)] * NORMAL
        self.orders = [_endless(rows, self.draw) for rows in parts]
        well = np.flatnonzero(~marks.masks.any((1, 2)))
        # Of cases that were called normal each is shown as often as it would be among the others, at most every second.
        self.well = _endless(well, self.draw) if len(well) else None
        self.share = min(0.5, 4 * len(well) / max(len(normals), 1))

    @torch.no_grad()
    def __call__(self) -> Views:
        drawn = [self._view(role, view) for role, view in self.plan]
        images, target, ignored, kinds = (np.stack(x) for x in zip(*drawn, strict=True))
        device = self.reader.mean.device
        maps = self.reader.maps(to_batch(images, device), STRIDES)
        group = torch.tensor([groups for _, groups in self.plan])
        whole, unknown, kind = (torch.from_numpy(x).to(device) for x in (target, ignored, kinds))
        return Views({s: m.half() for s, m in maps.items()}, whole, unknown, kind, group, images)

    def _view(self, role: str, group: int) -> tuple[np.ndarray, ...]:
        """Image uint8 (S, S, 3), target float32, ignored bool and kinds int64 (S, S)."""
        marks, draw, side = self.marks, self.draw, self.normals.shape[1]
        nothing = np.zeros((side, side), np.uint8)
        out, kind, inside = nothing, nothing, nothing
        called_normal = role == "normal" and self.well is not None and draw.random() < self.share
        if role == "marked" or called_normal:
            mark = next(self.well if called_normal and self.well is not None else self.orders[group])
            image, mask = marks.images[mark], marks.masks[mark]
            out = nothing if marks.ignored is None else marks.ignored[mark]
            kind = nothing if marks.kinds is None else marks.kinds[mark]
        else:
            at = draw.integers(len(self.normals))
            image, mask = np.asarray(self.normals[at]), nothing
            inside = nothing + 1 if self.roi is None else np.asarray(self.roi[at])
        image, mask, out, kind, inside = _moved(image, (mask, out, kind, inside), draw, mask)
        if role == "pasted":
            mark = next(self.orders[group])
            of_donor = nothing if marks.kinds is None else marks.kinds[mark]
            lesion = marks.masks[mark]
            donor, lesion, named = _moved(marks.images[mark], (lesion, of_donor), draw, lesion, donor=True)
            image, mask = pasted(image, inside, donor, lesion, draw)
            if mask.any() and named.any():
                kind = mask * np.bincount(named[lesion > 0]).argmax().astype(np.uint8)
        return _coloured(image, draw), mask.astype(np.float32), out > 0, kind.astype(np.int64)


def _moved(
    image: np.ndarray, masks: tuple[np.ndarray, ...], draw: np.random.Generator, near: np.ndarray | None = None,
    donor: bool = False,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Image and masks, turned, zoomed, shifted and perhaps mirrored alike; what comes in is mirrored from inside.

    Of an image that is larger than VIEW a part of that side, mostly round a place in the mask `near`. Of a donor that
    is not larger the lesions `near` come to the middle, and no mirrored one beside them.
    """
    side, zoom = len(image), draw.uniform(*ZOOM)
    out = min(side, VIEW)
    if donor and out == side and near is not None and near.any():
        centre = np.argwhere(near).mean(0)[::-1]
    elif out == side:
        centre = side * (0.5 + draw.uniform(-SHIFT, SHIFT, 2))
    else:
        centre, half = draw.uniform(0, side, 2), min(out / zoom, side) / 2
        if near is not None and near.any() and draw.random() < NEAR:
            lesion = np.flatnonzero(near)
            place = np.unravel_index(lesion[draw.integers(len(lesion))], near.shape)[::-1]
            centre = np.array(place) + draw.uniform(-0.3, 0.3, 2) * out / zoom
        centre = centre.clip(half, side - half)
    turned: Any = cv2.getRotationMatrix2D((float(centre[0]), float(centre[1])), draw.uniform(-TURN, TURN), zoom)
    turned[:, 2] += out / 2 - centre
    mirrored = draw.random() < 0.5

    def moved(x: np.ndarray, how: int, border: int) -> np.ndarray:
        y = cv2.warpAffine(np.ascontiguousarray(x), turned, (out, out), flags=how, borderMode=border)
        return np.ascontiguousarray(y[:, ::-1] if mirrored else y)

    of_masks = cv2.BORDER_CONSTANT if donor else cv2.BORDER_REFLECT_101
    image = moved(image, cv2.INTER_LINEAR, cv2.BORDER_REFLECT_101)
    return image, *(moved(m, cv2.INTER_NEAREST, of_masks) for m in masks)


def _coloured(image: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    x: Any = image.astype(np.float32) * draw.uniform(0.75, 1.25) * draw.uniform(0.9, 1.1, 3) + draw.uniform(-15, 15)
    if draw.random() < 0.3:
        x = cv2.GaussianBlur(x, (0, 0), draw.uniform(0.5, 2) * len(image) / 224)
    return np.clip(x, 0, 255).astype(np.uint8)


def taught(lessons: Lessons, parts: int, check: Check) -> list[Decoder]:
    """Trains decoders side by side: one for each of `parts` folds, from all but the marks of it, then one from all."""
    config, reader = lessons.config, lessons.reader
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        decoders = [
            Decoder(reader.widths, config.width, len(lessons.marks.names)).to(reader.mean.device)
            for _ in range(parts + 1)
        ]
    lessons.drawn.append(lessons())
    for decoder in decoders:
        decoder.standardise(lessons.drawn[0].maps)
    groups = [[{"params": list(d.parameters()), "lr": config.rate}] for d in decoders]
    return _trained(lessons, decoders, groups, config.steps, check)


def taught_on(lessons: Lessons, encoder: Encoder, decoders: list[Decoder], check: Check) -> list[Decoder]:
    """Goes on with copies of decoders that were taught, and lets a copy of the encoder learn with each.

    A decoder that starts anew would pull the encoder about before it knows anything (Kumar et al. 2022, "Fine-tuning
    can distort pretrained features").
    """
    config, groups = lessons.config, []
    decoders = [copy.deepcopy(decoder).train().requires_grad_() for decoder in decoders]
    for decoder in decoders:
        own = {"params": list(decoder.parameters()), "lr": CALMER * config.rate}
        decoder.encoder = copy.deepcopy(encoder).eval().to(memory_format=torch.channels_last)
        late = parameter_groups(decoder.encoder, STILL, 1.0, 1.0)[:-1]
        groups.append([own, {"params": [p for layer in late for p in layer["params"]], "lr": config.tune}])
    return _trained(lessons, decoders, groups, config.tune_steps, check)


def _trained(
    lessons: Lessons, decoders: list[Decoder], groups: list[list[dict[str, Any]]], steps: int, check: Check
) -> list[Decoder]:
    """The decoders; each has learnt its groups of parameters from all marks but its own fold's, the last from all."""
    optimisers = [torch.optim.AdamW(group, weight_decay=1e-2) for group in groups]
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(o, [g["lr"] for g in o.param_groups], steps, pct_start=0.1)
        for o in optimisers
    ]
    drawn = lessons.drawn
    for step in range(steps):
        check(step / steps)
        if len(drawn) <= step < DRAWN:
            drawn.append(lessons())
        elif step and step % DRAWN == 0:
            lessons.draw.shuffle(drawn)
        views = drawn[step % DRAWN]
        for fold, (decoder, optimiser, schedule) in enumerate(zip(decoders, optimisers, schedules, strict=True)):
            last = fold == len(decoders) - 1
            loss = _loss(decoder, views if last else views.of(torch.nonzero(views.part != fold)[:, 0]))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
    return [decoder.eval().requires_grad_(False) for decoder in decoders]


def _loss(decoder: Decoder, views: Views) -> Tensor:
    maps = views.maps
    if decoder.encoder is not None:
        still = {s: m.float() for s, m in maps.items() if s <= STILL}
        further = decoder.encoder.onwards(still, STRIDES)
        maps = further or decoder.encoder.maps(to_batch(views.images, views.target.device), STRIDES)
    y = F.interpolate(decoder(maps), size=views.target.shape[-2:], mode="bilinear", align_corners=False)
    loss = lesion_loss(y[:, 0], views.target, ~views.ignored)
    if y.shape[1] > 1 and (named := (views.kinds > 0) & ~views.ignored).any():
        loss = loss + F.cross_entropy(y[:, 1:].permute(0, 2, 3, 1)[named], views.kinds[named] - 1)
    return loss


def lesion_loss(y: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Computes cross-entropy plus each image's Dice loss: logits, targets in 0..1, valid bool (B, h, w) -> a scalar."""
    use = valid.float()
    entropy = F.binary_cross_entropy_with_logits(y, target, weight=use, reduction="sum") / use.sum().clamp_min(1)
    p = y.sigmoid() * use
    t = target * use
    dice = 1 - (2 * (p * t).sum((1, 2)) + 1) / (p.sum((1, 2)) + t.sum((1, 2)) + 1)
    return entropy + dice.mean()


def _endless(pool: np.ndarray, draw: np.random.Generator) -> Iterator[int]:
    """The pool in a drawn order, again and again."""
    while True:
        yield from draw.permutation(pool)
