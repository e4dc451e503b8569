"""Pixel AUROC, exact PRO and Dice of many heat maps: all at once, by blocks, and beside anomalib's AUROC and AUPRO.

Each is measured in a process of its own, on one thread. Maps are drawn: neither time nor agreement depends on what
they show. anomalib lives in an environment of its own, see `bench peers`; without it only our two ways are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.engine.allocator import most_memory
from core.engine.benches import _anomalib, peers
from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics import localised as at_once
from core.engine.metrics import localised as by_blocks
from core.engine.metrics.localisation import Pixels
from core.engine.metrics.localised import MOST

ROOT = Path(__file__).resolve().parents[3]
WAYS = {"exact": at_once.at_once, "blocks": by_blocks.by_blocks}
LEVEL = PixelScale(0.0, 1.0, 0.6)  # pixels above it count as marked for Dice


def run(quick: bool = False) -> dict[str, Any]:
    """500 maps of 256 px (quick: 12 of 64 px), each with one lesion, read from files.

    "exact", "blocks", "anomalib": the processor's seconds, the process's peak memory in MiB (libraries counted, files
    not) and the figures. "ratio": anomalib's seconds over those of the way that an evaluation takes for so many maps,
    which counts Dice as well; "ratios": over each way's. Both are None without anomalib, and "missing" says how to
    install it. "difference": the largest between exact and blocks; "anomalib_difference": exact and anomalib.
    """
    count, side = (12, 64) if quick else (500, 256)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, rows in zip(("maps", "masks"), peers.marked(count, side, np.random.default_rng(0)), strict=True):
            np.save(folder / f"{kind}.npy", rows)
        ours = "import sys; from core.engine.benches import metrics; metrics.show(*sys.argv[1:])"
        found = {way: _process([sys.executable, "-c", ours, name, way]) for way in WAYS}
        result: dict[str, Any] = {"ratio": None, "ratios": None, "maps": count, "side": side, **found}
        result["difference"] = _difference(found["exact"], found["blocks"])
        try:
            python = peers.peers_python()
        except ValueError as error:
            return result | {"missing": str(error)}
        theirs = _process([python, _anomalib.__file__, name, "figures"])
    ratios = {way: theirs["cpu_seconds"] / found[way]["cpu_seconds"] for way in WAYS}
    return result | {
        "ratio": ratios["exact" if count * side**2 <= MOST else "blocks"],
        "ratios": ratios,
        "anomalib": theirs,
        "anomalib_difference": _difference(found["exact"], theirs),
    }


def show(folder: str, way: str) -> None:
    """Print what `measure` finds, for the process that waits for it."""
    print(json.dumps(measure(folder, way)))


def measure(folder: str, way: str) -> dict[str, Any]:
    """Our figures of the maps in a folder, with the seconds of this process for them and its peak memory in MiB."""
    maps, masks = (_Stored(Path(folder) / f"{name}.npy") for name in ("maps", "masks"))
    pixels = Pixels(maps, masks, np.ones(len(maps), int))
    used = np.arange(len(maps))
    WAYS[way](pixels, used[:2], np.ones(2, bool), LEVEL)  # warm
    before = time.process_time()
    found = WAYS[way](pixels, used, np.ones(len(used), bool), LEVEL)
    seconds, peak = time.process_time() - before, most_memory(torch.device("cpu"))
    figures = {"auroc": found.pixel_auroc, "pro": found.pro, "dice": float(found.dice.mean())}
    return {**figures, "cpu_seconds": seconds, "peak_mib": peak / 2**20}


class _Stored:
    """Rows of a .npy file, read without a memory map: its pages would count as the process's memory."""

    def __init__(self, file: Path) -> None:
        mapped = np.lib.format.open_memmap(file, mode="r")
        self.shape, self._dtype, self._first, self._file = mapped.shape, mapped.dtype, mapped.offset, file

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> np.ndarray:
        rows = np.arange(len(self))[index]
        size = int(np.prod(self.shape[1:]))
        found = np.empty((len(rows), size), self._dtype)
        for row, target in zip(rows, found, strict=True):
            offset = self._first + int(row) * size * self._dtype.itemsize
            target[:] = np.fromfile(self._file, self._dtype, size, offset=offset)
        return found.reshape(len(rows), *self.shape[1:])


def _process(line: list[str]) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line[-2:])} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _difference(one: dict[str, float], other: dict[str, float]) -> float:
    return max(abs(one[name] - other[name]) for name in ("auroc", "pro", "dice") if name in other)
