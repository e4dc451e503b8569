"""The cluster browser: fit times of t-SNE and UMAP, milliseconds per frame, click to image, lasso to gallery."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
DIMENSIONS = 256
FIT = """
import json, sys, time
import numpy as np
from core.studio.benches.clusters import clusters
from core.studio.clusters.config import MapConfig
from core.studio.clusters.maps import fit_map
method, sizes = sys.argv[1], [int(n) for n in sys.argv[2].split(",")]
found = {}
for n in sizes:
    x = clusters(n)
    for when in ("first", "warm") if n <= 5000 else ("warm",):
        start = time.perf_counter()
        fit_map(x, MapConfig(method=method))
        found[f"{n}_{when}"] = round(time.perf_counter() - start, 2)
print(json.dumps(found))
"""


def clusters(n: int, seed: int = 0) -> np.ndarray:
    """float32 (n, 256): eight overlapping clouds."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(8, DIMENSIONS))
    return (means[rng.integers(0, 8, n)] + rng.normal(size=(n, DIMENSIONS)) * 1.5).astype(np.float32)


def run(quick: bool = False) -> dict:
    """{"ratio": 16.7 ms over a frame of 50,000 points (1 or more is 60 frames a second), "fits", "frames", "page"}.

    Fits run in a process of their own, in seconds: "first" holds UMAP's compiling (it takes another path from 4,096
    points on, hence two of them), "warm" is the same again. `quick`: 1,000 points only, and no 200,000.
    """
    from core.studio.benches import _clusters_page

    sizes = (1000,) if quick else (1000, 5000, 20000)
    fits = {}
    for method in ("tsne", "umap"):
        start = time.perf_counter()
        command = [sys.executable, "-c", FIT, method, ",".join(map(str, sizes))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"the fit of {method} failed: {done.stderr.strip().splitlines()[-1]}")
        fits[method] = {**json.loads(done.stdout.splitlines()[-1]), "process": round(time.perf_counter() - start, 2)}
    frames = _clusters_page.frames((5000, 50000) if quick else (5000, 50000, 200000))
    return {
        "ratio": round(1000 / 60 / frames["50000"]["pan_ms"], 2),
        "fits": fits,
        "frames": frames,
        "page": _clusters_page.answers(),
    }
