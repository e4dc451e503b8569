"""The cluster browser: fit times of t-SNE and UMAP, milliseconds per frame, click to image, lasso to gallery."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DIMENSIONS = 256
SIZES = {"1k": 1000, "5k": 5000, "20k": 20000}
POINTS = {"5k": 5000, "50k": 50000, "200k": 200000}
PARTS = (
    *(f"tsne-{size}" for size in SIZES),
    *(f"umap-{size}" for size in SIZES),
    *(f"frames-{size}" for size in POINTS),
    "page-click",
    "page-lasso",
)
QUICK = ("tsne-1k", "umap-1k", "frames-5k", "frames-50k", "page-click", "page-lasso")
FIT = """
import json, sys, time
from app.benches.clusters import clusters
from core.studio.clusters.config import MapConfig
from core.studio.clusters.maps import fit_map
method, n, found = sys.argv[1], int(sys.argv[2]), {}
x = clusters(n)
for when in ("first", "warm"):
    start = time.perf_counter()
    fit_map(x, MapConfig(method=method))
    found[when + "_s"] = round(time.perf_counter() - start, 2)
print(json.dumps(found))
"""


def clusters(n: int, seed: int = 0) -> np.ndarray:
    """float32 (n, 256): eight overlapping clouds."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(8, DIMENSIONS))
    return (means[rng.integers(0, 8, n)] + rng.normal(size=(n, DIMENSIONS)) * 1.5).astype(np.float32)


def chosen(only: tuple[str, ...], quick: bool) -> list[str]:
    """The parts that `only` names, whole or by their beginning ("umap", "frames-50k"); ValueError lists them all."""
    for name in only:
        if not any(p == name or p.startswith(f"{name}-") for p in PARTS):
            raise ValueError(f"the bench of clusters has no part {name!r}; its parts are: {', '.join(PARTS)}")
    if not only:
        return list(QUICK if quick else PARTS)
    return [p for p in PARTS if any(p == name or p.startswith(f"{name}-") for name in only)]


def run(quick: bool = False, only: tuple[str, ...] = ()) -> dict:
    """{"fits": {method: {size: {"first_s", "warm_s"}}}, "frames": {points: ...}, "page": {...}, "ratio"}.

    Every fit has a process of its own and comes twice in it: "first" holds what the process pays once (UMAP compiles,
    and takes another path from 4,096 points on), "warm" is the same again. "ratio", where frames of 50,000 points are
    measured: 16.7 ms over one of them (1 or more is 60 frames a second). `quick`: without the long parts; `only`: these
    parts alone.
    """
    from app.benches import _clusters_page

    parts = chosen(only, quick)
    found: dict = {}
    for part in parts:
        method, _, size = part.partition("-")
        if method in ("tsne", "umap"):
            found.setdefault("fits", {}).setdefault(method, {})[size] = fit(method, SIZES[size])
    sizes = {size: n for size, n in POINTS.items() if f"frames-{size}" in parts}
    if sizes:
        found["frames"] = _clusters_page.frames(sizes)
        if "50k" in sizes:
            found["ratio"] = round(1000 / 60 / found["frames"]["50k"]["pan_ms"], 2)
    asked = [part.removeprefix("page-") for part in parts if part.startswith("page-")]
    if asked:
        found["page"] = _clusters_page.answers(asked)
    return found


def fit(method: str, n: int) -> dict:
    """{"first_s", "warm_s"} of n points by a method, in a process of their own."""
    command = [sys.executable, "-c", FIT, method, str(n)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"the fit of {method} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])
