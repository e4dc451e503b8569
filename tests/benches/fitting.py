"""Benchmarks of fits: PaDiM's against a loop over positions, and the default detector's memory as images are added."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import BlendHead
from core.engine.detectors.gaussian import Moments
from core.engine.detectors.padim import draw_channels
from core.engine.tensors import most_memory
from tests.benches import Aim, bench

EPSILON = 0.01


def loop_over_positions(features: np.ndarray, positions: range) -> list[tuple[np.ndarray, np.ndarray]]:
    """Fits a Gaussian to each position, one by one: features (N, C, P) -> (mean, inverse covariance) of each."""
    identity = np.identity(features.shape[1])
    fitted = []
    for p in positions:
        covariance = np.cov(features[:, :, p], rowvar=False) + EPSILON * identity
        fitted.append((features[:, :, p].mean(0), np.linalg.inv(covariance)))
    return fitted


@bench("padim-fit", Aim(10, at_least=True))
def padim_fit(quick: bool = False) -> dict[str, Any]:
    """PaDiM's fit against a Python loop over positions, and its peak memory for 64 and 2,000 images.

    The loop is PaDiM as it is usually published: all features kept as (N, C, H * W), then per position `numpy.cov`,
    + 0.01 I and an inverse. Both sides start from the same features and end with what scoring needs; the backbone's
    pass is the same for both and left out. Memory is the peak resident set of a process of its own, backbone included,
    over images that are drawn as they are asked for.

    64 images of 256 px (quick: 128), 100 of 448 channels. "ratio": the loop's seconds over ours.
    """
    side, n, rounds = (32 if quick else 64), 64, 2 if quick else 5
    draw = torch.Generator().manual_seed(0)
    channels = draw_channels({4: 64, 8: 128, 16: 256}, 100, 0, torch.device("cpu"))
    sides = {4: side, 8: side // 2, 16: side // 4}
    maps = [torch.randn(n, len(index), sides[k], sides[k], generator=draw).relu_() for k, index in channels.items()]
    joined = torch.cat([torch.nn.functional.interpolate(m, side, mode="nearest") for m in maps], 1)
    features = joined.reshape(n, joined.shape[1], -1).numpy()

    def ours() -> float:
        start = time.perf_counter()
        moments = Moments()
        for i in range(0, n, 32):
            moments.add([m[i : i + 32] for m in maps])
        moments.finish(EPSILON)
        return time.perf_counter() - start

    def theirs() -> float:
        some = range(0, side * side, 8)  # evenly spread, then scaled up: every position costs the same
        start = time.perf_counter()
        loop_over_positions(features, some)
        return (time.perf_counter() - start) * side * side / len(some)

    ours(), theirs()
    taken = [(ours(), theirs()) for _ in range(rounds)]
    fast, slow = (sorted(t[i] for t in taken)[rounds // 2] for i in (0, 1))
    few, many = 64, 256 if quick else 2000
    size = 64 if quick else 128
    peaks = {count: _padim_peak(count, size) for count in (few, many)}
    return {
        "ratio": slow / fast,
        "seconds": fast,
        "loop_seconds": slow,
        "positions": side * side,
        "peak_mib": {str(count): peak for count, peak in peaks.items()},
        "peak_ratio": peaks[many] / peaks[few],
        "threads": torch.get_num_threads(),
    }


CHILD = """
import json, sys
import numpy as np, torch
from core.engine.tensors import most_memory
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder

class Drawn:
    def __init__(self, n, size):
        self.shape = (n, size, size, 3)
    def __len__(self):
        return self.shape[0]
    def __getitem__(self, cut):
        start, stop, _ = cut.indices(len(self))
        draw = np.random.default_rng(start)
        return draw.integers(0, 256, (stop - start, *self.shape[1:]), dtype=np.uint8)

PaDiM.fit(build_encoder(EncoderConfig()), Drawn(int(sys.argv[1]), int(sys.argv[2])), PaDiMConfig())
print(json.dumps(most_memory(torch.device("cpu")) / 2**20))
"""


def _padim_peak(count: int, size: int) -> float:
    """MiB at the peak of a process that fits PaDiM on `count` images of size x size."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(count), str(size)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


DIFFERENT, CHUNK = 256, 64  # images that are drawn, further ones repeat them; images scored at once
COUNTS, SIZE = (2000, 20_000), 224
STEPS = 30  # of the lesion head: its memory does not grow with them


class Repeated:
    """Images uint8 (count, S, S, 3), or regions of interest (count, S, S), that repeat the few which are in memory."""

    def __init__(self, drawn: np.ndarray, count: int) -> None:
        self._drawn, self.shape, self.dtype = drawn, (count, *drawn.shape[1:]), drawn.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self._drawn[np.arange(len(self))[index] % len(self._drawn)])


@bench("memory")
def memory(quick: bool = False) -> dict[str, Any]:
    """Peak memory of the default detector's fit and scoring on 2,000 and 20,000 images of 224 px, without the images.

    "peak_mib": {count: {"fit", "score"}}, the most of a process of its own by then, torch included.

    "ratio": the most for many images over that for few; 1 would be flat. "seconds" of both by count.
    """
    counts, size = ((32, 64), 64) if quick else (COUNTS, SIZE)
    reports = {}
    for count in counts:
        line = [sys.executable, "-m", "tests.benches.fitting", str(count), str(size)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{count} images: {done.stderr.strip()[-500:]}")
        reports[str(count)] = json.loads(done.stdout.splitlines()[-1])
    few, many = (reports[str(count)]["peak_mib"]["score"] for count in counts)
    return {
        "ratio": many / few,
        "peak_mib": {count: row["peak_mib"] for count, row in reports.items()},
        "fit_and_score_seconds": {count: row["seconds"] for count, row in reports.items()},
        "size": size,
        "threads": torch.get_num_threads(),
    }


def measure(count: int, size: int) -> dict[str, dict[str, float]]:
    """Measures seconds and peak memory after the fit on `count` images and after their scores and maps."""
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
