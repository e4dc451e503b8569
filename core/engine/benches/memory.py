"""Peak memory of the default detector's fit and scoring on 2,000 and 20,000 images of 224 px, beside the images."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from core.engine.allocator import most_memory
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import BlendHead

DIFFERENT, CHUNK = 256, 64  # images that are drawn, further ones repeat them; images scored at once
COUNTS, SIZE = (2000, 20_000), 224
STEPS = 30  # of the lesion head: its memory does not grow with them


class Repeated:
    """uint8 (count, S, S, 3), or regions of interest (count, S, S), of which only the first are in memory."""

    def __init__(self, drawn: np.ndarray, count: int) -> None:
        self._drawn, self.shape, self.dtype = drawn, (count, *drawn.shape[1:]), drawn.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self._drawn[np.arange(len(self))[index] % len(self._drawn)])


def run(quick: bool = False) -> dict[str, Any]:
    """ "peak_mib": {count: {"fit", "score"}}, the most of a process of its own by then, torch included.

    "ratio": the most for many images over that for few; 1 would be flat. "seconds" of both by count.
    """
    counts, size = ((32, 64), 64) if quick else (COUNTS, SIZE)
    found = {}
    for count in counts:
        line = [sys.executable, "-m", "core.engine.benches.memory", str(count), str(size)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{count} images: {done.stderr.strip()[-500:]}")
        found[str(count)] = json.loads(done.stdout.splitlines()[-1])
    few, many = (found[str(count)]["peak_mib"]["score"] for count in counts)
    return {
        "ratio": many / few,
        "peak_mib": {count: row["peak_mib"] for count, row in found.items()},
        "fit_and_score_seconds": {count: row["seconds"] for count, row in found.items()},
        "size": size,
        "threads": torch.get_num_threads(),
    }


def measure(count: int, size: int) -> dict[str, dict[str, float]]:
    """Seconds and the peak after the fit on `count` images and after their scores and maps."""
    draw = np.random.default_rng(0)
    coarse = draw.integers(40, 220, (min(DIFFERENT, count), size // 8, size // 8, 3), dtype=np.uint8)
    images: Any = Repeated(coarse.repeat(8, 1).repeat(8, 2), count)
    inside = np.zeros((1, size, size), np.uint8)
    inside[:, size // 16 : -size // 16, size // 16 : -size // 16] = 1
    roi: Any = Repeated(inside, count)
    encoder = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto")).eval()
    peaks, seconds, began = {}, {}, time.perf_counter()
    config = BlendHead.presets["quick"].replace(**{"head.steps": STEPS if size == SIZE else 2})
    detector = BlendHead.fit(encoder, images, config, FitContext(roi=roi))
    peaks["fit"], seconds["fit"] = _peak(), time.perf_counter() - began
    for start in range(0, count, CHUNK):
        rows = slice(start, min(start + CHUNK, count))
        detector.image_score(detector.predict(images[rows], roi=roi[rows]), roi[rows])
    peaks["score"], seconds["score"] = _peak(), time.perf_counter() - began - seconds["fit"]
    return {"peak_mib": peaks, "seconds": seconds}


def _peak() -> float:
    return most_memory(torch.device("cpu")) / 2**20


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
