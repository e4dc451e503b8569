"""A small decoder on the maps of a frozen encoder, and its training on views of annotated and normal images.

Views show annotated images, normal images with pasted lesions, and normal images. The encoder processes each view only
once, for the decoders of all folds. Each decoder is trained without the annotated images that are held out in its fold.
Cross-validation therefore takes little more time than a single training run.
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
from typing_extensions import Self

from core.engine.augment.medmix.donors import pasted
from core.engine.backbones.encoder import Encoder
from core.engine.detectors.base import Marks
from core.engine.detectors.learnt.config import LearntConfig
from core.engine.tensors import to_batch
from core.engine.training.schedule import parameter_groups

STRIDES = (4, 8, 16, 32)
VIEW = 224  # side length of a view in pixels
NEAR_LESION = 0.7  # fraction of crops from larger images with lesions that are centred near a lesion
NEW_STEPS = 100  # number of steps with new views, which are then used again in another order
TURN, ZOOM, SHIFT = 180.0, (0.7, 1.4), 0.09  # degrees; factor; fraction of the side length
SCALES = {4: 7.0, 8: 6.5, 16: 5.5, 32: 2.5}  # standard deviation of each map after scaling, as in EfficientNet-lite0
DROP, NOISE = 0.2, 0.3  # fraction of dropped channels; standard deviation of shifts, relative to the channel's
TUNE_RATE = 0.4  # factor of the decoder's learning rate while the encoder is fine-tuned
FROZEN = 8  # stride up to which a fine-tuned encoder is frozen, which saves half of the work
MARKED, PASTED, NORMAL = 4, 2, 2  # number of views of each kind per step and decoder
Check = Callable[[float], None]  # called with the fraction of the work that is done, 0 to 1; raises Stopped to stop


class Decoder(nn.Module):
    """Decoder that fuses maps of strides 4 to 32 from coarse to fine and predicts logits, `(B, 1 + kinds, S/4, S/4)`.

    The first logit is for a lesion of any kind, the others are for each kind. The finest level, which has most of the
    cells, has half the width. Each map is scaled by one factor to the standard deviation in SCALES. With a standard
    deviation of 1 for each channel, or for the entire map, the Dice after training on few marks was 0.04 to 0.05 lower.
    In training, channels are dropped and shifted at random.
    """

    def __init__(self, widths: dict[int, int], width: int, kinds: int = 0) -> None:
        super().__init__()
        wide = {s: width if s > STRIDES[0] else width // 2 for s in STRIDES}
        self.lateral = nn.ModuleDict({str(s): nn.Conv2d(widths[s], wide[s], 1) for s in STRIDES})
        self.mix = nn.ModuleDict({str(s): _mixing(wide[s]) for s in STRIDES})
        self.narrow = nn.Conv2d(width, width // 2, 1)
        self.out = nn.Conv2d(width // 2, 1 + kinds, 3, padding=1)
        assert self.out.bias is not None
        nn.init.constant_(self.out.bias, -2.0)  # few cells are part of a lesion
        for s in STRIDES:
            self.register_buffer(f"mean{s}", torch.zeros(widths[s], 1, 1))  # of each channel over the first views
            self.register_buffer(f"deviation{s}", torch.ones(widths[s], 1, 1))
        self.draws = torch.Generator().manual_seed(0)  # on the CPU, for the same numbers on every device
        self.encoder: Encoder | None = None  # encoder that was fine-tuned together with this decoder

    def standardise(self, maps: dict[int, Tensor]) -> None:
        """Computes and stores the mean and standard deviation of each channel of maps, `(N, C, h, w)`, by stride."""
        for s in STRIDES:
            x = maps[s].float()
            getattr(self, f"mean{s}").copy_(x.mean((0, 2, 3))[:, None, None])
            getattr(self, f"deviation{s}").copy_(x.std((0, 2, 3)).clamp_min(1e-4)[:, None, None])

    def forward(self, maps: dict[int, Tensor]) -> Tensor:
        y: Tensor | None = None
        for s in sorted(STRIDES, reverse=True):
            z = self.lateral[str(s)](self._scaled(maps[s].float(), s))
            if y is not None:
                y = self.narrow(y) if s == STRIDES[0] else y
                z = z + F.interpolate(y, size=z.shape[-2:], mode="bilinear", align_corners=False)
            y = self.mix[str(s)](z)
        return self.out(y)

    def _scaled(self, x: Tensor, s: int) -> Tensor:
        deviation = getattr(self, f"deviation{s}")
        if self.training:
            x = x + NOISE * deviation * torch.randn(len(x), x.shape[1], 1, 1, generator=self.draws).to(x)
            keep = torch.rand(len(x), x.shape[1], 1, 1, generator=self.draws) >= DROP
            x = x * keep.to(x) / (1 - DROP)
        return x * (SCALES[s] / deviation.mean())


def _mixing(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.SiLU())


@dataclass
class Views:
    """The B views of one training step."""

    maps: dict[int, Tensor]  # maps of the encoder by stride, float16
    target: Tensor  # float (B, S, S), 1 inside a lesion
    ignored: Tensor  # bool (B, S, S), True where the ground truth is unknown
    kinds: Tensor  # int64 (B, S, S), kind of lesion from 1, or 0
    part: Tensor  # (B,), fold of the mark that the view or its lesion comes from, or -1
    images: np.ndarray  # uint8 (B, S, S, 3)

    def of(self, rows: Tensor) -> Views:
        return Views(
            {s: m[rows] for s, m in self.maps.items()}, self.target[rows], self.ignored[rows], self.kinds[rows],
            self.part[rows], self.images[rows.cpu().numpy()],
        )  # fmt: skip


class ViewSampler:
    """Source of training views. Each step has at least MARKED, PASTED and NORMAL views of each kind per decoder."""

    def __init__(
        self, reader: Encoder, normals: np.ndarray, roi: np.ndarray | None, marks: Marks, config: LearntConfig,
        folds: list[np.ndarray],
    ) -> None:  # fmt: skip
        """Prepares the order in which images are drawn for the views.

        Args:
            reader: Encoder that reads the views.
            normals: Normal images, `uint8 (N, S, S, 3)`.
            roi: Regions of interest of the normal images, `uint8 (N, S, S)`, or None.
            marks: Annotated images of the same side length.
            config: Options of the fit.
            folds: Indices of the annotated images in each fold. With a single fold, no image is held out.
        """
        self.reader, self.normals, self.roi, self.marks, self.config = reader, normals, roi, marks, config
        self.draw = np.random.default_rng([config.seed, 7])
        self.views: list[Views] = []  # of earlier steps
        other_folds = max(len(folds) - 1, 1)
        count = -(-MARKED // other_folds), -(-PASTED // other_folds)
        roles = ["marked"] * count[0] + ["pasted" if config.paste else "marked"] * count[1]
        self.plan = [(role, number) for number in range(len(folds)) for role in roles] + [("normal", -1)] * NORMAL
        self.orders = [_endless(rows, self.draw) for rows in folds]
        called_normal = np.flatnonzero(~marks.masks.any((1, 2)))
        # `share` is the fraction of the views of normal images that show cases that readers called normal.
        self.called_normal = _endless(called_normal, self.draw) if len(called_normal) else None
        self.share = min(0.5, 4 * len(called_normal) / max(len(normals), 1))

    def at(self, step: int) -> Views:
        """Returns the views of a step, numbered from 0. Steps must be requested in order."""
        if len(self.views) <= step < NEW_STEPS:
            self.views.append(self())
        elif step and step % NEW_STEPS == 0:
            self.draw.shuffle(self.views)
        return self.views[step % NEW_STEPS]

    def after(self, steps: int) -> Self:
        """Creates and shuffles the views as a training run of `steps` steps would, and returns the sampler."""
        for step in range(steps):
            self.at(step)
        return self

    @torch.no_grad()
    def __call__(self) -> Views:
        views = [self._view(role, view) for role, view in self.plan]
        images, target, ignored, kinds = (np.stack(x) for x in zip(*views, strict=True))
        device = self.reader.mean.device
        maps = self.reader.maps(to_batch(images, device), STRIDES)
        group = torch.tensor([groups for _, groups in self.plan])
        truth, unknown, kind = (torch.from_numpy(x).to(device) for x in (target, ignored, kinds))
        return Views({s: m.half() for s, m in maps.items()}, truth, unknown, kind, group, images)

    def _view(self, role: str, group: int) -> tuple[np.ndarray, ...]:
        """Creates an image, `uint8 (S, S, 3)`, and its target, ignored pixels and kinds of lesions, all `(S, S)`."""
        marks, draw, side = self.marks, self.draw, self.normals.shape[1]
        nothing = np.zeros((side, side), np.uint8)
        ignored, kind, inside = nothing, nothing, nothing
        show_case = role == "normal" and self.called_normal is not None and draw.random() < self.share
        if role == "marked" or show_case:
            mark = next(self.called_normal if show_case and self.called_normal is not None else self.orders[group])
            image, mask = marks.images[mark], marks.masks[mark]
            ignored = nothing if marks.ignored is None else marks.ignored[mark]
            kind = nothing if marks.kinds is None else marks.kinds[mark]
        else:
            at = draw.integers(len(self.normals))
            image, mask = np.asarray(self.normals[at]), nothing
            inside = nothing + 1 if self.roi is None else np.asarray(self.roi[at])
        image, mask, ignored, kind, inside = _moved(image, (mask, ignored, kind, inside), draw, mask)
        if role == "pasted":
            mark = next(self.orders[group])
            donor_kinds = nothing if marks.kinds is None else marks.kinds[mark]
            lesion = marks.masks[mark]
            donor, lesion, named = _moved(marks.images[mark], (lesion, donor_kinds), draw, lesion, donor=True)
            image, mask = pasted(image, inside, donor, lesion, draw)
            if mask.any() and named.any():
                kind = mask * np.bincount(named[lesion > 0]).argmax().astype(np.uint8)
        return _coloured(image, draw), mask.astype(np.float32), ignored > 0, kind.astype(np.int64)


def _moved(
    image: np.ndarray, masks: tuple[np.ndarray, ...], draw: np.random.Generator, near: np.ndarray | None = None,
    donor: bool = False,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Rotates, zooms, shifts and perhaps mirrors an image and its masks. Pixels outside are filled by reflection.

    An image larger than VIEW is cropped to that side length, mostly near a pixel of the mask `near`. A smaller donor is
    centred on the lesions in `near`, and its masks are padded with 0 instead of reflected.
    """
    side, zoom = len(image), draw.uniform(*ZOOM)
    out = min(side, VIEW)
    if donor and out == side and near is not None and near.any():
        centre = np.argwhere(near).mean(0)[::-1]
    elif out == side:
        centre = side * (0.5 + draw.uniform(-SHIFT, SHIFT, 2))
    else:
        centre, half = draw.uniform(0, side, 2), min(out / zoom, side) / 2
        if near is not None and near.any() and draw.random() < NEAR_LESION:
            lesion = np.flatnonzero(near)
            pixel = np.unravel_index(lesion[draw.integers(len(lesion))], near.shape)[::-1]
            centre = np.array(pixel) + draw.uniform(-0.3, 0.3, 2) * out / zoom
        centre = centre.clip(half, side - half)
    matrix: Any = cv2.getRotationMatrix2D((float(centre[0]), float(centre[1])), draw.uniform(-TURN, TURN), zoom)
    matrix[:, 2] += out / 2 - centre
    mirrored = draw.random() < 0.5

    def moved(x: np.ndarray, interpolation: int, border: int) -> np.ndarray:
        y = cv2.warpAffine(np.ascontiguousarray(x), matrix, (out, out), flags=interpolation, borderMode=border)
        return np.ascontiguousarray(y[:, ::-1] if mirrored else y)

    mask_border = cv2.BORDER_CONSTANT if donor else cv2.BORDER_REFLECT_101
    image = moved(image, cv2.INTER_LINEAR, cv2.BORDER_REFLECT_101)
    return image, *(moved(m, cv2.INTER_NEAREST, mask_border) for m in masks)


def _coloured(image: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    x: Any = image.astype(np.float32) * draw.uniform(0.75, 1.25) * draw.uniform(0.9, 1.1, 3) + draw.uniform(-15, 15)
    if draw.random() < 0.3:
        x = cv2.GaussianBlur(x, (0, 0), draw.uniform(0.5, 2) * len(image) / 224)
    return np.clip(x, 0, 255).astype(np.uint8)


def train_decoders(lessons: ViewSampler, folds: int, check: Check) -> list[Decoder]:
    """Trains one decoder per fold, without this fold's annotated images, and a last decoder on all annotated images."""
    config, reader = lessons.config, lessons.reader
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        decoders = [
            Decoder(reader.widths, config.width, len(lessons.marks.names)).to(reader.mean.device)
            for _ in range(folds + 1)
        ]
    lessons.views.append(lessons())
    for decoder in decoders:
        decoder.standardise(lessons.views[0].maps)
    groups = [[{"params": list(d.parameters()), "lr": config.rate}] for d in decoders]
    return _trained(lessons, decoders, groups, config.steps, check)


def fine_tune(lessons: ViewSampler, encoder: Encoder, decoders: list[Decoder], check: Check) -> list[Decoder]:
    """Continues to train copies of trained decoders, each together with a copy of the encoder.

    The decoders are trained first, because an untrained decoder would distort the encoder's features (Kumar et al.
    2022, "Fine-tuning can distort pretrained features").
    """
    config, groups = lessons.config, []
    decoders = [copy.deepcopy(decoder).train().requires_grad_() for decoder in decoders]
    for decoder in decoders:
        decoder.draws = torch.Generator().manual_seed(config.seed)  # for the same noise with and without a pause
        decoder_group = {"params": list(decoder.parameters()), "lr": TUNE_RATE * config.rate}
        decoder.encoder = copy.deepcopy(encoder).eval().to(memory_format=torch.channels_last)
        late = parameter_groups(decoder.encoder, FROZEN, 1.0, 1.0)[:-1]
        groups.append([decoder_group, {"params": [p for layer in late for p in layer["params"]], "lr": config.tune}])
    return _trained(lessons, decoders, groups, config.tune_steps, check)


def _trained(
    lessons: ViewSampler, decoders: list[Decoder], groups: list[list[dict[str, Any]]], steps: int, check: Check
) -> list[Decoder]:
    """Trains each decoder on the annotated images of all other folds, and the last decoder on all annotated images."""
    optimisers = [torch.optim.AdamW(group, weight_decay=1e-2) for group in groups]
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(o, [g["lr"] for g in o.param_groups], steps, pct_start=0.1)
        for o in optimisers
    ]
    for step in range(steps):
        check(step / steps)
        views = lessons.at(step)
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
        frozen = {s: m.float() for s, m in maps.items() if s <= FROZEN}
        maps = decoder.encoder.onwards(frozen, STRIDES) or decoder.encoder.maps(
            to_batch(views.images, views.target.device), STRIDES
        )
    y = F.interpolate(decoder(maps), size=views.target.shape[-2:], mode="bilinear", align_corners=False)
    loss = lesion_loss(y[:, 0], views.target, ~views.ignored)
    if y.shape[1] > 1 and (named := (views.kinds > 0) & ~views.ignored).any():
        loss = loss + F.cross_entropy(y[:, 1:].permute(0, 2, 3, 1)[named], views.kinds[named] - 1)
    return loss


def lesion_loss(y: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Computes the binary cross-entropy plus the mean Dice loss at the `valid` positions.

    Args:
        y: Logits, `(B, h, w)`.
        target: Targets from 0 to 1, `(B, h, w)`.
        valid: Positions to use, `bool (B, h, w)`.
    """
    use = valid.float()
    entropy = F.binary_cross_entropy_with_logits(y, target, weight=use, reduction="sum") / use.sum().clamp_min(1)
    p = y.sigmoid() * use
    t = target * use
    dice = 1 - (2 * (p * t).sum((1, 2)) + 1) / (p.sum((1, 2)) + t.sum((1, 2)) + 1)
    return entropy + dice.mean()


def _endless(pool: np.ndarray, draw: np.random.Generator) -> Iterator[int]:
    while True:
        yield from draw.permutation(pool)
