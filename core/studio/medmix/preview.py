"""Images for the MedMix and Training tabs: grids of the classes A_0 to A_k, figures of grids, and training batches."""

from __future__ import annotations

import contextlib
import io
import json
import random
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import torch

from core.engine.augment.config import WeakConfig
from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.augment.weak import WeakViews
from core.engine.config import Config, option
from core.engine.objectives.config import PretrainConfig
from core.engine.progress import Stop, Stopped
from core.engine.registry import STRONG
from core.engine.rows import rows_of
from core.engine.tensors import to_batch, to_pixels
from core.engine.training.pretraining import Data, Pretraining
from core.studio.db.store import Store
from core.studio.ingest.donors import check_pool, pool_of
from core.studio.ingest.originals import shown
from core.studio.ingest.overview import polygons
from core.studio.ingest.resize import mask_at, prepare
from core.studio.ingest.studies import load_arrays
from core.studio.jobs.steps import never
from core.studio.runs import marks
from core.studio.runs import records as runs
from core.studio.runs.marks import donors_of

SIDES = (64, 128, 256, 512)
POOL = 12  # number of images of another study, or with annotated lesions, from which lesions are copied
JPEG = (cv2.IMWRITE_JPEG_QUALITY, 95, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444)
_TOLERANCE = 0.004  # maximum error of an outline, as a fraction of the image's side length


@dataclass(frozen=True)
class Scene(Config):
    """Settings of a preview: a strong augmentation, and the images to which it is applied.

    strong: Name of the strong augmentation, whose settings are in `config`.
    seed: Seed of all random choices; with the same seed, a slider on the page changes only its own setting.
    samples: Number of images, from index `first` on in the random order of the study's normal training images.
    size: Side length of the images in pixels.
    weak: Whether weak views of the images are drawn, with the settings `weak_config`.
    drop: Token of an upload whose files are used instead of the study's images, or "".
    """

    study: str = ""
    strong: str = "medmix"
    config: dict = field(default_factory=dict)
    seed: int = 0
    samples: int = option(6, low=1, high=12)
    first: int = 0
    size: int = option(256, choices=SIDES)
    weak: bool = False
    weak_config: dict = field(default_factory=dict)
    drop: str = ""


@dataclass
class Grid:
    """Images drawn for a scene: a row per class A_0 to A_k (A_n has n pasted lesions) and a column per sample (M).

    images: Pixels of the images, uint8 `(k+1, M, S, S, 3)`.
    outlines: Polygons around the pasted lesions, indexed [class][sample], in fractions of the side length.
    sources: A dictionary per pasted lesion: class `n`, sample `m` and number in the image (`slot`); the boxes
    (x0, y0, x1, y1), in fractions of the side length, from which it was cut (`box`) and to which it was pasted (`to`);
    and the sample from which it was cut (`donor`), or M plus the index of an image of another study.
    aspect: Width divided by height of the original images, which are drawn as squares, or None if they differ.
    """

    images: np.ndarray
    outlines: list[list[list]]
    sources: list[dict]
    names: list[str]
    seconds: float
    aspect: float | None = 1.0

    def pack(self) -> bytes:
        """Returns the grid as bytes: the length of a JSON text (uint32), this JSON text, and a JPEG of all images.

        A browser reads the JPEG faster than raw pixels, which are ten times as large. 99 % of the values in the JPEG
        differ by at most 5 of 256 levels from the pixels; saved figures are exact.
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
    """Context manager that limits torch to one thread, because a second thread does not speed up drawing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cases_of(samples: Samples, scene: Scene, dropped: Path | None = None) -> list[dict]:
    """Returns the cases of a scene, or the files in the folder `dropped`. Raises ValueError if there are none."""
    if dropped is None:
        return samples.normals(scene.study, scene.seed, scene.first + scene.samples)[scene.first :]
    files = sorted(p for p in dropped.rglob("*") if p.is_file())
    if not files:
        raise ValueError("no image was dropped")
    return [{"path": str(files[i % len(files)]), "frame": 0, "scale": None, "name": files[i % len(files)].name}
            for i in range(scene.samples)]  # fmt: skip


def draw_grid(
    samples: Samples, scene: Scene, dropped: Path | None = None, blind: bool = False, should_stop: Stop = never
) -> Grid:
    """Draws the images of every class of a scene.

    dropped: Folder of files that are drawn instead of the study's images, or None.
    blind: Whether the study's images are numbered instead of named, and lesions annotated by readers are refused.
    should_stop: Function that is called before each class.
    Raises ValueError if a setting is invalid, and Stopped if `should_stop` returns True.
    """
    cases = cases_of(samples, scene, dropped)
    images, roi = samples.load(cases, scene.size)
    strong = strong_of(samples, scene, scene.size, blind)
    started = time.perf_counter()
    x, inside = to_batch(images, torch.device("cpu")), torch.from_numpy(roi)
    rows, cols, side = strong.k + 1, len(x), scene.size
    mosaic = np.empty((rows, side, cols, side, 3), np.uint8)
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
    """Builds the strong augmentation of a scene, with images of another study or annotated lesions if it needs them.

    size: Side length of the images in pixels.
    blind: Whether lesions annotated by readers are refused.
    Raises ValueError if annotated lesions are needed, but are refused or do not exist.
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
            raise ValueError("you read this study blind: lesions annotated by readers are not shown to you")
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


TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
_LOCK = threading.Lock()  # matplotlib's font cache is not thread-safe


def figure(grid: Grid, kind: str, outlines: bool = True, title: str = "") -> bytes:
    """Returns a grid as an image file for a paper or a slide, in one of the formats TYPES.

    The images are 1.2 inches high. SVG and PDF contain them in full resolution, and outlines as vector graphics.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Polygon

    rows, cols, side = grid.images.shape[:3]
    wide = 1.2 * (grid.aspect or 1.0)
    with _LOCK, matplotlib.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42, "font.family": "DejaVu Sans"}):
        fig = Figure(figsize=(wide * cols + 0.4, 1.2 * rows + (0.3 if title else 0.05)))
        FigureCanvasAgg(fig)
        axes = fig.subplots(rows, cols, squeeze=False)
        for n in range(rows):
            for m in range(cols):
                ax = axes[n][m]
                ax.imshow(grid.images[n, m], extent=(0, 1, 1, 0), interpolation="nearest", aspect="auto")
                ax.set_xticks([])
                ax.set_yticks([])
                for spine in ax.spines.values():
                    spine.set_visible(False)
                if outlines:
                    for line in grid.outlines[n][m]:
                        ax.add_patch(Polygon(line, closed=True, fill=False, edgecolor="#e6bd6a", linewidth=0.8))
            axes[n][0].set_ylabel(f"$A_{n}$", rotation=0, ha="right", va="center", labelpad=6)
        if title:
            fig.suptitle(title, fontsize=9, y=0.995)
        fig.subplots_adjust(left=0.4 / (wide * cols + 0.4), right=0.995, bottom=0.005, wspace=0.03, hspace=0.03,
                            top=1 - (0.3 if title else 0.01) / (1.2 * rows + 0.3))  # fmt: skip
        out = io.BytesIO()
        fig.savefig(
            out, format=kind, dpi=max(100, round(side / 1.2)), metadata={"Date": None} if kind == "svg" else None
        )
    return out.getvalue()


class BatchStrip:
    """Draws the augmented views in training batches as strips of thumbnails.

    The trainer of the last run is cached, so that further strips of the same run are drawn quickly.
    """

    def __init__(self, store: Store):
        self._store = store
        self._run: str | None = None
        self._trainer: Pretraining | None = None
        self._lock = threading.Lock()

    def strip(self, run_id: str, step: int, count: int = 8, side: int = 64) -> np.ndarray:
        """Draws up to `count` views per class of a batch, a row per class: uint8 ((k + 1) * side, count * side, 3)."""
        with self._lock, one_thread():
            trainer = self._open(run_id)
            trainer.step = max(0, min(step, trainer.steps - 1))
            views = trainer.views()
            labels = views.labels
            rows = []
            for n in range(int(labels.max()) + 1):
                chosen = torch.nonzero(labels == n)[:count, 0]
                some = views.images[chosen]
                if some.shape[-1] != side:
                    some = torch.nn.functional.interpolate(some, (side, side), mode="area")
                tiles = to_pixels(some)
                row = np.zeros((side, count * side, 3), np.uint8)
                row[:, : len(tiles) * side] = np.concatenate(list(tiles), 1)
                rows.append(row)
            return np.concatenate(rows)

    def _open(self, run_id: str) -> Pretraining:
        if self._run != run_id or self._trainer is None:
            run = runs.get_run(self._store, run_id)
            if run["kind"] != "pretrain" or not run["config"].get("epochs"):
                raise ValueError(f"{run_id} is not a training run, so it has no batches")
            config = PretrainConfig.from_dict(runs.settings_of(run["config"]))
            config = config.replace(**{"encoder.init": "random"})  # the views do not depend on the weights
            arrays = load_arrays(self._store, run["study"], config.size)
            train = arrays.index("train")
            pool = pool_of(self._store, config)
            marked = donors_of(self._store, run, config.size)
            data = Data(rows_of(arrays.images, train), rows_of(arrays.roi, train), *pool, marked)
            self._run, self._trainer = run_id, Pretraining(config, data, torch.device("cpu"))
        return self._trainer


class Samples:
    """Loads images and regions of interest, and caches the last `most` of them. Instances are thread-safe."""

    def __init__(self, store: Store, most: int = 96):
        self.store, self._most = store, most
        self._kept: OrderedDict[tuple, tuple[np.ndarray, np.ndarray, float]] = OrderedDict()
        self._lock = threading.Lock()

    def normals(self, study: str, seed: int, count: int) -> list[dict]:
        """Returns `count` normal training images, drawn at random with `seed` and repeated if the study has fewer.

        Raises ValueError if the study has no normal training image.
        """
        cases = self.store.query(
            "SELECT id, name, path, frame, scale FROM cases WHERE study = ? AND split = 'train' AND label = 'normal' "
            'ORDER BY "row"',
            [study],
        )
        if not cases:
            raise ValueError("this study has no normal training images to make classes of")
        random.Random(seed).shuffle(cases)
        return [cases[i % len(cases)] for i in range(count)]

    def load(self, cases: list[dict], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Loads images, uint8 (M, S, S, 3), and regions of interest, uint8 (M, S, S), of M cases; S is `size`."""
        loaded = [self._one(case, size) for case in cases]
        return np.stack([i for i, _, _ in loaded]), np.stack([r for _, r, _ in loaded])

    def marked(self, study: str, size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Loads up to `most` images, uint8 (M, S, S, 3), and masks, uint8 (M, S, S), of lesions annotated by readers.

        Raises ValueError if the study has no accepted masks.
        """
        rows = marks.accepted(self.store, study)[:most]
        if not rows:
            raise ValueError(marks.none_accepted(self.store, study))
        marked_cases = self.store.query(
            "SELECT id, name, path, frame, scale FROM cases WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps([row["case_id"] for row in rows])],
        )
        cases = {case["id"]: case for case in marked_cases}
        images, _ = self.load([cases[row["case_id"]] for row in rows], size)
        return images, np.stack([mask_at(marks.lesion_of(row), size) for row in rows])

    def aspect(self, cases: list[dict], size: int) -> float | None:
        """Returns the width of the images divided by their height, or None if this ratio varies by more than 2 %."""
        loaded = [self._one(case, size)[2] for case in cases]
        return round(float(np.mean(loaded)), 4) if max(loaded) <= 1.02 * min(loaded) else None

    def _one(self, case: dict, size: int) -> tuple[np.ndarray, np.ndarray, float]:
        key = (case["path"], case["frame"], size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        image = shown(case)
        loaded = *prepare(image, size), image.shape[1] / image.shape[0]
        with self._lock:
            self._kept[key] = loaded
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return loaded
