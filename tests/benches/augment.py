"""Benchmark of MedMix and weak views, batched, against a pipeline that takes an image at a time."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as TF

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS, MedMixConfig, WeakConfig
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.weak import WeakViews
from tests.benches import Aim, bench


@bench("augment", Aim(5, at_least=True))
def augment(quick: bool = False) -> dict[str, Any]:
    """MedMix and two weak views of 256 images, batched, against a per-image pipeline of PIL, torchvision and OpenCV.

    Both start from decoded images in memory (ours a float tensor, theirs PIL images) and end in float tensors: two
    weak views of each image, in batches of 32. Image i is made one of class A_{i mod 4}. Both run in one process with
    the same number of threads. The pipeline's blur is OpenCV's, many times as fast as torchvision's: the harder
    opponent.

    {"ratio": their seconds over ours, "seconds", "baseline_seconds", ...}; `quick`: 32 images.
    """
    count, side = (32 if quick else 256), 256
    images = smooth_images(count, side)
    medmix, weak = MEDMIX_PRESETS["paper"], WEAK_PRESETS["simclr"]
    x = torch.from_numpy(images).permute(0, 3, 1, 2).to(torch.float32).div_(255).contiguous()
    pictures = [Image.fromarray(i) for i in images]
    rounds = 1 if quick else 3
    ours, theirs = [], []
    batched(x[:32], medmix, weak, seed=0)
    for i in range(rounds):  # taken in turns, so that a busy machine slows both
        ours.append(_time(functools.partial(batched, x, medmix, weak, seed=i)))
        theirs.append(_time(functools.partial(one_by_one, pictures, medmix, weak, seed=i)))
    return {
        "ratio": min(theirs) / min(ours),
        "seconds": min(ours),
        "baseline_seconds": min(theirs),
        "images": count,
        "side": side,
        "threads": torch.get_num_threads(),
    }


def _time(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def smooth_images(count: int, side: int, seed: int = 0) -> np.ndarray:
    """Draws images uint8 (count, side, side, 3) of smooth random colours with a little grain."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(40, 220, (count, 8, 8, 3), dtype=np.uint8)
    fine = np.stack([cv2.resize(c, (side, side), interpolation=cv2.INTER_CUBIC) for c in coarse])
    return np.clip(fine.astype(np.int16) + rng.integers(-6, 7, fine.shape), 0, 255).astype(np.uint8)


def batched(x: torch.Tensor, medmix: MedMixConfig, weak: WeakConfig, seed: int, batch: int = 32) -> list[torch.Tensor]:
    """Augments our way: batches (batch, 3, S, S), two of weak views for each batch of images."""
    generator = torch.Generator().manual_seed(seed)
    strong, views = MedMix(medmix), WeakViews(weak)
    out = []
    for images in x.split(batch):
        mixed = strong(images, torch.arange(len(images)) % (medmix.k + 1), generator)
        out += [views(mixed.images, generator), views(mixed.images, generator)]
    return out


def one_by_one(
    pictures: list[Image.Image], medmix: MedMixConfig, weak: WeakConfig, seed: int, batch: int = 32
) -> list[torch.Tensor]:
    """Augments by the same recipe as it is usually written, an image at a time, stacked into the same batches."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    view = T.Compose(
        [
            T.RandomResizedCrop(pictures[0].width, scale=weak.crop, ratio=weak.ratio),
            T.RandomHorizontalFlip(weak.flip),
            T.RandomApply([T.ColorJitter(*weak.jitter)], weak.p_jitter),
            T.RandomGrayscale(weak.p_grey),
            T.RandomApply([T.Lambda(lambda p: _blur(p, weak))], weak.p_blur),
            T.ToTensor(),
        ]
    )
    jitter = T.ColorJitter(*medmix.jitter)
    out: list[torch.Tensor] = []
    pair: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for i, picture in enumerate(pictures):
        mixed = picture.copy()
        for _ in range(i % (medmix.k + 1)):
            _paste(mixed, random.choice(pictures), medmix, jitter)
        for views in pair:
            views.append(view(mixed))
        if len(pair[0]) == batch or picture is pictures[-1]:
            out += [torch.stack(views) for views in pair]
            pair = ([], [])
    return out


def _blur(picture: Image.Image, weak: WeakConfig) -> Image.Image:
    size = picture.width // 10 | 1
    return Image.fromarray(cv2.GaussianBlur(np.asarray(picture), (size, size), random.uniform(*weak.sigma)))


def _paste(target: Image.Image, donor: Image.Image, c: MedMixConfig, jitter: T.ColorJitter) -> None:
    side = target.width
    length, ratio = random.uniform(*c.size) * side, c.aspect ** random.uniform(-0.5, 0.5)
    h, w = (int(min(max(v, 5), side)) for v in (length * ratio, length / ratio))
    patch = TF.crop(donor, random.randint(0, side - h), random.randint(0, side - w), h, w)
    at = np.mgrid[0:h, 0:w].astype(np.float32)
    rows, cols, warped = at[0], at[1], False
    points = np.random.rand(c.control_points, 2) * (h, w)
    if random.random() < c.p_fisheye:
        warped = True
        for y, x in points:
            pull = 1 - ((rows - y) ** 2 + (cols - x) ** 2) / (0.35 * min(h, w)) ** 2
            pull = np.clip(pull, 0, None) * random.uniform(*c.fisheye)
            rows, cols = rows - (rows - y) * pull, cols - (cols - x) * pull
    if random.random() < c.p_wave:
        warped = True
        for y, _ in points:
            slide = np.sin(2 * np.pi * (rows - y) / (h * random.uniform(0.25, 0.75)))
            cols = cols + w * random.uniform(*c.wave) / c.control_points * slide
    if warped:
        rows, cols = rows.astype(np.float32), cols.astype(np.float32)
        moved = cv2.remap(np.asarray(patch), cols, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        patch = Image.fromarray(moved)
    if random.random() < c.p_jitter:
        patch = jitter(patch)
    if random.random() < c.p_noise:
        noisy = np.asarray(patch) + np.random.randn(h, w, 3) * 255 * random.uniform(*c.noise)
        patch = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
    target.paste(patch, (random.randint(0, side - w), random.randint(0, side - h)))
