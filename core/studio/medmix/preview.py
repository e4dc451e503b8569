"""The picture of the MedMix tab: classes A_0 to A_k by sample, from fixed seeds, with outlines and lesion sources."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch

from core.engine.augment.config import WeakConfig
from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.augment.weak import WeakViews
from core.engine.config import Config
from core.engine.progress import Stop, Stopped
from core.engine.registry import STRONG
from core.engine.tensors import to_batch, to_pixels
from core.studio.ingest.donors import check_pool
from core.studio.ingest.overview import polygons
from core.studio.jobs.steps import never
from core.studio.medmix.samples import Samples

SIDES = (64, 128, 256, 512)
POOL = 12  # images of another study that lesions are cut from
JPEG = (cv2.IMWRITE_JPEG_QUALITY, 95, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444)
_TOLERANCE = 0.004  # of an outline, in parts of the image's side


@dataclass(frozen=True)
class Scene(Config):
    """Settings of the picture. All random choices depend on `seed`, so that a slider changes only its own setting.

    The samples are training normals of the study, chosen by the seed, or the files of `drop`. weak: show weak views.
    """

    study: str = ""
    strong: str = "medmix"
    config: dict = field(default_factory=dict)
    seed: int = 0
    samples: int = 6
    first: int = 0
    size: int = 256
    weak: bool = False
    weak_config: dict = field(default_factory=dict)
    drop: str = ""

    def __post_init__(self) -> None:
        if self.size not in SIDES:
            raise ValueError(f"size is one of {', '.join(map(str, SIDES))}, not {self.size}")
        if not 1 <= self.samples <= 12:
            raise ValueError(f"samples must be 1..12, not {self.samples}")


@dataclass
class Grid:
    """The drawn classes of a scene: images uint8 (k+1, M, S, S, 3).

    outlines[n][m]: polygons around the pasted lesions, as fractions of the side. sources: [{"n", "m", "slot", "box",
    "donor", "to"}], with boxes (x0, y0, x1, y1) as fractions of the side; donor: a column, or M + index of an image of
    another study. names: of the samples. seconds: drawing time. aspect: width / height of the original images,
    which are squeezed to squares as in training; None if they differ.
    """

    images: np.ndarray
    outlines: list[list[list]]
    sources: list[dict]
    names: list[str]
    seconds: float
    aspect: float | None = 1.0

    def pack(self) -> bytes:
        """Packs the grid as bytes: length of the JSON (uint32), the JSON, and the mosaic as a JPEG.

        A JPEG has a tenth of the bytes of raw pixels, and encoding and decoding it takes a third of the time that a
        browser takes to read these. 99 % of values differ by at most 5 of 256 levels; saved figures are exact.
        """
        rows, cols, side = self.images.shape[:3]
        mosaic = self.images.transpose(0, 2, 1, 3, 4).reshape(rows * side, cols * side, 3)
        facts = {
            "rows": rows, "cols": cols, "side": side, "outlines": self.outlines, "sources": self.sources,
            "names": self.names, "seconds": self.seconds, "aspect": self.aspect,
        }  # fmt: skip
        head = json.dumps(facts).encode()
        _, encoded = cv2.imencode(".jpg", cv2.cvtColor(mosaic, cv2.COLOR_RGB2BGR), JPEG)
        return len(head).to_bytes(4, "little") + head + encoded.tobytes()


@contextlib.contextmanager
def one_thread():
    """Limits torch to one thread inside the block; a second one does not help, and costs time on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cases_of(samples: Samples, scene: Scene, dropped: Path | None = None) -> list[dict]:
    """Returns the samples of a scene: cases of the study, or dropped files."""
    if dropped is None:
        return samples.normals(scene.study, scene.seed, scene.first + scene.samples)[scene.first :]
    files = sorted(p for p in dropped.rglob("*") if p.is_file())
    if not files:
        raise ValueError("no image was dropped")
    return [{"path": str(files[i % len(files)]), "frame": 0, "scale": None, "name": files[i % len(files)].name}
            for i in range(scene.samples)]  # fmt: skip


def draw_grid(
    samples: Samples,
    scene: Scene,
    dropped: Path | None = None,
    blind: bool = False,
    should_stop: Stop = never,
) -> Grid:
    """Draws the classes of a scene.

    blind: whether the study's samples are numbered instead of named, and marked lesions are refused. should_stop:
    called before each class. Raises ValueError for an invalid setting, and Stopped if `should_stop` returns True.
    """
    cases = cases_of(samples, scene, dropped)
    images, roi = samples.load(cases, scene.size)
    strong = strong_of(samples, scene, scene.size, blind)
    started = time.perf_counter()
    x, inside = to_batch(images, torch.device("cpu")), torch.from_numpy(roi)
    rows, cols, side = strong.k + 1, len(x), scene.size
    mosaic = np.empty((rows, side, cols, side, 3), np.uint8)  # as it leaves: a class is put into it as it is made
    views = WeakViews(WeakConfig.from_dict(scene.weak_config)) if scene.weak else None
    crops = torch.Generator().manual_seed(scene.seed)
    outlines: list[list[list]] = []
    sources: list[dict] = []
    with torch.inference_mode(), one_thread():
        for n in range(rows):
            if should_stop():
                raise Stopped
            images_n, marks = x, torch.zeros(cols, side, side, dtype=torch.bool)
            if n:
                mixed = strong(x, n, torch.Generator().manual_seed(scene.seed * 8 + n), inside)
                images_n, marks = mixed.images, mixed.masks
                sources += [] if views else _sources(mixed, n, side)
            if views:
                images_n, marks = views.with_masks(images_n, crops, marks)
            mosaic[n] = to_pixels(images_n).transpose(1, 0, 2, 3)
            outlines.append([_outline(m) for m in marks.numpy().astype(np.uint8)])
    return Grid(
        mosaic.transpose(0, 2, 1, 3, 4),
        outlines,
        sources,
        [f"image {scene.first + m + 1}" if blind and dropped is None else c["name"] for m, c in enumerate(cases)],
        time.perf_counter() - started,
        samples.aspect(cases, scene.size),
    )


def strong_of(samples: Samples, scene: Scene, size: int, blind: bool = False):
    """Builds the scene's augmentation for images of side `size`, with another study's images or marked lesions if used.

    Raises ValueError for marked lesions if `blind`, or if there are none.
    """
    kind = STRONG.get(scene.strong)
    config = kind.Config.from_dict(scene.config)
    if scene.strong == "medmix" and config.pooled:
        check_pool(samples.store, config)
        pool, roi = samples.load(samples.normals(config.pooled, scene.seed, POOL), size)
        strong = kind(config, to_batch(pool, torch.device("cpu")), torch.from_numpy(roi))
    else:
        strong = kind(config)
    if scene.strong == "medmix" and config.from_marks:
        if blind:
            raise ValueError("you read this study blind: lesions that readers marked are not shown to you")
        strong.marked = MarkedLesions.of(*samples.marked(scene.study, size, POOL), torch.device("cpu"))
    return strong


def _outline(mask: np.ndarray) -> list:
    return [] if mask.all() or not mask.any() else polygons(mask, _TOLERANCE)


def _sources(mixed, n: int, side: int) -> list[dict]:
    if mixed.sources is None or mixed.donors is None:
        return []

    def box(corners) -> list[float]:
        y0, x0, y1, x1 = (round(float(v) / side, 4) for v in corners)
        return [x0, y0, x1, y1]

    return [
        {"n": n, "m": m, "slot": slot, "box": box(mixed.sources[m, slot]), "to": box(mixed.boxes[m, slot]),
         "donor": int(mixed.donors[m, slot])}
        for m in range(len(mixed.images))
        for slot in range(n)
        if int(mixed.donors[m, slot]) >= 0 and bool(mixed.sources[m, slot].any())
    ]  # fmt: skip
