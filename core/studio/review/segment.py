"""A lesion's region from clicks, by the features of the run that the case is read with.

What is made of a window of a case is kept while the case is open: further clicks answer in hundredths of a second.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.originals import Source
from core.studio.runs import records as runs
from core.studio.runs.snapshots import encoder_run

KEPT = 8  # windows of cases
Window = tuple[int, int, int, int]


def segment(
    store: Store, case: dict, run: str, clicks: Sequence[tuple[float, float, bool]], window: Window | None = None
) -> np.ndarray:
    """bool (H, W) of the case's image: the region that the clicks (x, y, positive) ask for; empty without any click.

    case: its row. run: "" for none; then the features are those of the network installed with the studio.
    window: what is in sight (x0, y0, x1, y1), None for the whole image; a small window finds small lesions more finely.
    Raises ValueError without a positive click, or for a window that holds too little.
    """
    from core.engine.segment.region import Click, region

    shape = (case["height"], case["width"])
    if window is not None:
        x0, y0, x1, y1 = window
        window = (max(x0, 0), max(y0, 0), min(x1, shape[1]), min(y1, shape[0]))
    folder = _encoder_folder(store, run) if run else None
    made = _lattice(folder, Source.of(case), window)
    if not clicks:
        return np.zeros(shape, bool)
    return region(made, [Click(*one) for one in clicks], shape)


@functools.lru_cache(maxsize=KEPT)
def _lattice(folder: Path | None, source: Source, window: Window | None):
    from core.engine.segment.lattice import lattice

    return lattice(_encoder(folder), source.image(), window)


def _encoder_folder(store: Store, run: str) -> Path | None:
    """Where the encoder of a run lies; None for a run without one of its own."""
    from core.engine.backbones.encoder import ABOUT

    row = runs.get_run(store, run)
    if row["kind"] != "pretrain" and row["parent"] is None:
        return None
    folder = runs.run_folder(store, encoder_run(store, run)["id"])
    return folder if (folder / ABOUT).is_file() else None


@functools.lru_cache(maxsize=2)
def _encoder(folder: Path | None):
    """A run's encoder, or the one whose weights are installed with the studio."""
    from core.engine.backbones.config import EncoderConfig
    from core.engine.backbones.encoder import build_encoder, load_encoder
    from core.engine.backbones.inference import inference_copy

    config = EncoderConfig(arch="efficientnet-lite0", init="auto")
    return inference_copy(load_encoder(folder, "cpu") if folder else build_encoder(config).eval())
