"""A small decoder on a frozen encoder's maps, taught with marked images, with their lesions pasted into normal images,
and with plain normal ones.

Each view is drawn and read by the encoder once; the decoders of all folds then learn from the kept maps, so that
cross-validation costs little more than one training.
"""

from __future__ import annotations

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

STRIDES = (4, 8, 16, 32)
TARGET = 2  # stride of the grid on which the loss is taken
TURN, ZOOM, SHIFT = 180.0, (0.7, 1.4), 0.09  # degrees; factor; of the side
USUAL = 224  # pixels; of larger images there are fewer views
MARKED, PASTED = 4, 2  # of a batch's eight images; the others are plain normals
Check = Callable[[float], None]  # called with the part that is done, 0 to 1; raises Stopped when asked to stop


class Decoder(nn.Module):
    """Maps of strides 4 to 32, fused top down, to logits (B, 1 + kinds, S/4, S/4): lesion or not, then which kind. The
    finest level, which holds most of the cells, has half the width.

    Each map is first standardised by the `mean` and `deviation` of its channels over the views.
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

    def standardise(self, maps: dict[int, Tensor]) -> None:
        """Take the scales of maps (N, C, h, w)."""
        for s in STRIDES:
            some = maps[s][:256].float()
            getattr(self, f"mean{s}").copy_(some.mean((0, 2, 3))[:, None, None])
            getattr(self, f"deviation{s}").copy_(some.std((0, 2, 3)).clamp_min(1e-4)[:, None, None])

    def forward(self, maps: dict[int, Tensor]) -> Tensor:
        y: Tensor | None = None
        for s in sorted(STRIDES, reverse=True):
            z = self.lateral[str(s)]((maps[s].float() - getattr(self, f"mean{s}")) / getattr(self, f"deviation{s}"))
            if y is not None:
                y = self.narrow(y) if s == STRIDES[0] else y
                z = z + F.interpolate(y, size=z.shape[-2:], mode="bilinear", align_corners=False)
            y = self.mix[str(s)](z)
        return self.out(y)


def _mixing(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(8, width), nn.SiLU())


@dataclass
class Views:
    """N views as the decoders see them. maps: float16 by stride; targets uint8 (N, S/2, S/2), the part of each cell
    that is lesion, of 255; ignored bool; kinds uint8 (N, S/2, S/2), from 1, 0 where none is named. of (N,): which mark
    a view or the lesion in it comes from, -1 for none; role (N,): 0 marked, 1 pasted, 2 normal.
    """

    maps: dict[int, Tensor]
    targets: np.ndarray
    ignored: np.ndarray
    kinds: np.ndarray
    of: np.ndarray
    role: np.ndarray


@torch.inference_mode()
def views(
    reader: Encoder,
    normals: np.ndarray,
    roi: np.ndarray | None,
    marks: Marks,
    config: LearntConfig,
    check: Check,
) -> Views:
    """normals uint8 (N, S, S, 3) with regions of interest (N, S, S) or None; marks at the same side."""
    draw = np.random.default_rng([config.seed, 7])
    side, sick = normals.shape[1], np.flatnonzero(marks.masks.any((1, 2)))
    well = np.flatnonzero(~marks.masks.any((1, 2)))
    count = int(np.clip(config.views * len(sick), config.least_views, config.most_views) * min(1.0, USUAL / side))
    lessons = [(0, sick[i % len(sick)]) for i in range(count)]
    lessons += [(1, sick[i % len(sick)]) for i in range(count // 2 if config.paste else 0)]
    lessons += [(2, -1)] * (count // 2)
    lessons += [(2, well[i % len(well)]) for i in range(min(4 * len(well), count // 4))]
    cells = -(-side // TARGET)
    targets, kinds = (np.zeros((len(lessons), cells, cells), np.uint8) for _ in "tk")
    ignored = np.zeros(targets.shape, bool)
    kept: dict[int, list[Tensor]] = {s: [] for s in STRIDES}
    nothing = np.zeros((side, side), np.uint8)
    for start in range(0, len(lessons), 16):
        check(start / len(lessons))
        images = []
        for i, (role, mark) in enumerate(lessons[start : start + 16], start):
            out = kind = nothing
            inside = nothing
            if role == 0 or mark >= 0 and role == 2:
                image, mask = marks.images[mark], marks.masks[mark]
                out = nothing if marks.ignored is None else marks.ignored[mark]
                kind = nothing if marks.kinds is None else marks.kinds[mark]
            else:
                at = draw.integers(len(normals))
                image, mask = np.asarray(normals[at]), nothing
                inside = nothing + 1 if roi is None else np.asarray(roi[at])
            image, mask, out, kind, inside = _moved(image, (mask, out, kind, inside), draw)
            if role == 1:
                of_donor = nothing if marks.kinds is None else marks.kinds[mark]
                donor, lesion, named = _moved(marks.images[mark], (marks.masks[mark], of_donor), draw)
                image, mask = pasted(image, inside, donor, lesion, draw)
                if mask.any() and named.any():
                    kind = mask * np.bincount(named[lesion > 0]).argmax().astype(np.uint8)
            images.append(_coloured(image, draw))
            targets[i] = cv2.resize(mask * 255, (cells, cells), interpolation=cv2.INTER_AREA)
            ignored[i] = cv2.resize(out, (cells, cells), interpolation=cv2.INTER_NEAREST) > 0
            kinds[i] = cv2.resize(kind, (cells, cells), interpolation=cv2.INTER_NEAREST)
        for s, m in reader.maps(to_batch(np.stack(images), reader.mean.device), STRIDES).items():
            kept[s].append(m.half().cpu())
    roles, marked = (np.array(values) for values in zip(*lessons, strict=True))
    return Views({s: torch.cat(parts) for s, parts in kept.items()}, targets, ignored, kinds, marked, roles)


def _moved(image: np.ndarray, masks: tuple[np.ndarray, ...], draw: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Image and masks, turned, zoomed, shifted and perhaps mirrored alike; what comes in is mirrored from inside."""
    side = len(image)
    turned: Any = cv2.getRotationMatrix2D((side / 2, side / 2), draw.uniform(-TURN, TURN), draw.uniform(*ZOOM))
    turned[:, 2] += draw.uniform(-SHIFT, SHIFT, 2) * side
    mirrored = draw.random() < 0.5

    def moved(x: np.ndarray, how: int) -> np.ndarray:
        x = np.ascontiguousarray(x[:, ::-1] if mirrored else x)
        return np.asarray(cv2.warpAffine(x, turned, (side, side), flags=how, borderMode=cv2.BORDER_REFLECT_101))

    return moved(image, cv2.INTER_LINEAR), *(moved(m, cv2.INTER_NEAREST) if m.any() else m for m in masks)


def _coloured(image: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    x: Any = image.astype(np.float32) * draw.uniform(0.75, 1.25) * draw.uniform(0.9, 1.1, 3) + draw.uniform(-15, 15)
    if draw.random() < 0.3:
        x = cv2.GaussianBlur(x, (0, 0), draw.uniform(0.5, 2) * len(image) / 224)
    return np.clip(x, 0, 255).astype(np.uint8)


def taught(
    seen: Views,
    left_out: np.ndarray,
    widths: dict[int, int],
    config: LearntConfig,
    kinds: int,
    seed: int,
    device: torch.device,
    check: Check,
) -> Decoder:
    """A decoder that has learnt from all views but those of the marks `left_out` (m,)."""
    draw = np.random.default_rng([config.seed, seed])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 * config.seed + seed)
        decoder = Decoder(widths, config.width, kinds).to(device)
    decoder.standardise(seen.maps)
    usable = ~np.isin(seen.of, left_out) | (seen.of < 0)
    pools = [np.flatnonzero(usable & (seen.role == role)) for role in range(3)]
    shares = [MARKED, PASTED if len(pools[1]) else 0]
    shares.append(8 - sum(shares))
    orders = [_endless(pool, draw) for pool in pools]
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=config.rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.rate, total_steps=config.steps, pct_start=0.1)
    for step in range(config.steps):
        if step % 10 == 0:
            check(step / config.steps)
        rows = np.array([next(order) for order, n in zip(orders, shares, strict=True) for _ in range(n)])
        maps = {s: m[rows].to(device) for s, m in seen.maps.items()}
        target, ignored, kind = (torch.from_numpy(x[rows]).to(device) for x in (seen.targets, seen.ignored, seen.kinds))
        y = F.interpolate(decoder(maps), size=target.shape[-2:], mode="bilinear", align_corners=False)
        loss = lesion_loss(y[:, 0], target.float() / 255, ~ignored)
        if kinds and (named := (kind > 0) & ~ignored).any():
            loss = loss + F.cross_entropy(y[:, 1:].permute(0, 2, 3, 1)[named], kind[named].long() - 1)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
    return decoder.eval().requires_grad_(False)


def lesion_loss(y: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Cross-entropy and soft Dice of each image: logits, targets in 0..1 and valid bool (B, h, w) -> a scalar."""
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
