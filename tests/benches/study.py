"""Import of a study."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from core.engine.tensors import most_memory
from core.studio.db import opening
from core.studio.ingest.studies import import_study, load_arrays
from tests.benches import ROOT, Aim, bench

SIDE, FILES = 64, 500  # of the files' images; further cases are links to these files
COUNTS = (1000, 10_000)


@bench("study", Aim(1.3))
def study(quick: bool = False) -> dict[str, Any]:
    """Preparing a study's images against decoding them once with OpenCV on all cores; and the memory that it takes.

    "ratio": seconds to import a study and prepare its arrays over those to decode its files once.

    "peak_mib": the peak resident set of a process that does it, by number of images. A file linked several times
    counts each time, on both sides.
    """
    counts = tuple(c // 10 for c in COUNTS) if quick else COUNTS
    figures = {}
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            figures[str(count)] = _measure(Path(folder), count)
    last = figures[str(counts[-1])]
    return {"ratio": last["seconds"] / last["decode_seconds"], "studies": figures}


def _measure(folder: Path, count: int) -> dict[str, float]:
    files = _draw(folder / "images", count)
    started = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda path: cv2.imread(str(path)), files):
            pass
    decode = time.perf_counter() - started
    line = [sys.executable, "-c", f"from tests.benches import study; study.prepare({str(folder)!r})"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=ROOT)
    return {"decode_seconds": decode, **json.loads(done.stdout.splitlines()[-1])}


def prepare(folder: str) -> None:
    """Imports folder/images and prepares them, in a process of its own.

    Prints seconds and the most memory it took.
    """
    store = opening.open(Path(folder) / "home")
    started = time.perf_counter()
    study = import_study(store, "bench", Path(folder) / "images").study
    load_arrays(store, study, SIDE)
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_mib": most_memory(torch.device("cpu")) / 2**20}))


def _draw(folder: Path, count: int) -> list[Path]:
    """`count` files, flat: the first FILES of them drawn, the others links to these."""
    folder.mkdir(parents=True)
    draw, files = np.random.default_rng(0), []
    for i in range(count):
        path = folder / f"{i:06d}.png"
        if i < FILES:
            coarse = draw.integers(40, 220, (8, 8, 3), dtype=np.uint8)
            cv2.imwrite(str(path), cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))
        else:
            path.hardlink_to(files[i % FILES])
        files.append(path)
    return files
