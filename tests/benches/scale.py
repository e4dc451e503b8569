"""A study of many images, stage by stage.

python -m tests.benches.scale STAGE HOME FOLDER measures one stage in this process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from core.engine.tensors import most_memory
from core.studio.clusters import library
from core.studio.clusters.config import MapConfig
from core.studio.clusters.step import embed
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest import studies
from core.studio.jobs.steps import Work
from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_fit, create_untrained, fit_run, pretrain_run
from core.studio.runs.results import evaluate_run
from core.studio.runs.scoring import score_run
from core.studio.training import dryrun
from tests.benches import ROOT, bench
from tests.benches._server import chromium, memory_mb, serve
from tests.tools.drawing import FOLDERS, MASKS, draw

STUDY, SIDE = "scale", 64
ENCODER = {"init": "imagenet", "arch": "efficientnet-lite0"}
TRAINING = {"preset": "imagenet", "size": SIDE, "epochs": 1, "batch": 8, "centre_images": 64, "encoder": ENCODER}


def _import(store: Store, folder: Path) -> None:
    studies.import_study(store, STUDY, folder)


def _prepare(store: Store, _: Path) -> None:
    studies.load_arrays(store, STUDY, SIDE)


def _train(store: Store, _: Path) -> None:
    dry_run = dryrun.measure(store.home.path, STUDY, TRAINING, "cpu")
    if "seconds_step" not in dry_run:
        raise RuntimeError(dry_run["message"])


def _fit(store: Store, _: Path) -> None:
    encoder = create_untrained(store, STUDY, SIDE, **ENCODER)
    pretrain_run(store, encoder, "cpu")
    fit_run(store, create_fit(store, encoder, "padim"), "cpu")


def _last(store: Store) -> str:
    return runs.list_runs(store, STUDY, "fit")[0]["id"]


def _score(store: Store, _: Path) -> None:
    run = _last(store)
    score_run(store, run, "cpu")
    runs.update_run(store, run, status="done")


def _evaluate(store: Store, _: Path) -> None:
    evaluate_run(store, _last(store), bootstrap=100)


def _map(store: Store, _: Path) -> None:
    encoder = runs.get_run(store, _last(store))["parent"]
    config = MapConfig(method="pca", feature="backbone")
    embed(Work(store, encoder, {"config": config.to_dict(), "device": "cpu"}))
    assert library.request(store, encoder, config)["ready"]


STAGES: dict[str, Callable[[Store, Path], None]] = {
    "import": _import,
    "prepare": _prepare,
    "train": _train,
    "fit": _fit,
    "score": _score,
    "evaluate": _evaluate,
    "map": _map,
}


def measured(stage: str, store: Store, folder: Path) -> dict[str, float | None]:
    """Measures a stage: "seconds" by the clock, "cpu_seconds" of all threads, "peak_mib" and "own_mib" of this process.

    peak_mib: files that it maps included. own_mib: the most without those files, looked at five times a second; None
    where the system does not say.
    """
    most, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            most[0] = max(most[0], memory_mb(os.getpid(), "RssAnon") or 0.0)

    watch = threading.Thread(target=look, daemon=True)
    began, busy = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    watch.start()
    STAGES[stage](store, folder)
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    done.set()
    watch.join()
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(now.ru_utime + now.ru_stime - busy.ru_utime - busy.ru_stime, 1),
        "peak_mib": round(most_memory(torch.device("cpu")) / 2**20),
        "own_mib": round(max(most[0], memory_mb(os.getpid(), "RssAnon") or 0.0)) or None,
    }


if __name__ == "__main__":
    opened = opening.open(sys.argv[2])
    print(json.dumps(measured(sys.argv[1], opened, Path(sys.argv[3]))))


COUNTS, DRAWN = (10_000, 100_000), {"train": 360, "test_normal": 120, "test_abnormal": 120}
PARTS = {"train": 0.6, "test_normal": 0.2, "test_abnormal": 0.2}
TABS = ("study", "medmix", "training", "clusters", "review", "results", "report")
PATIENCE = 600_000  # milliseconds
ASKED = """() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).map((e) =>
  [new URL(e.name).pathname, e.responseEnd - e.requestStart])"""


@bench("scale")
def scale(quick: bool = False, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """A study of 10,000 and of 100,000 images of 64 px: seconds and memory by stage, and each page's slowest answer.

    Images are drawn by the demo's painter; beyond the first 600 they are links to these. Six in ten are normal images
    to train on, two normal and two abnormal to test. Each stage runs in a process of its own: import, the arrays'
    preparation, some real steps of a PMSACL training on all images, PaDiM's fit on EfficientNet-lite0, its scores and
    maps of all held-out and test images, their evaluation, and a map of the features. Then the page is opened on every
    tab.

    "studies": by number of images, "stages": {stage: {"seconds", "cpu_seconds", "peak_mib", "own_mib"}}, "pages":
    {tab: [slowest answer's path, milliseconds]}, "disk_mib" of the home. ratio: of all stages' processor seconds, those
    an image costs in the largest study over those in the smallest (1: linear). "stage_ratio": the same by stage.

    only: numbers of images, as text, instead of 10,000 and 100,000.
    """
    counts = tuple(int(count) for count in only) if only else (200, 400) if quick else COUNTS
    studies = {}
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="pmsacl-scale-") as name:
            studies[count] = _measure(Path(name), count, pages=not quick)
    least, most = studies[min(counts)], studies[max(counts)]
    grown = max(counts) / min(counts)

    def ratio(names: list[str]) -> float:
        def busy(study: dict) -> float:
            return sum(study["stages"][name]["cpu_seconds"] for name in names)

        return round(busy(most) / busy(least) / grown, 3) if busy(least) else float("nan")

    by_stage = {name: ratio([name]) for name in STAGES}
    return {"ratio": ratio(list(STAGES)), "stage_ratio": by_stage, "studies": {str(k): v for k, v in studies.items()}}


def _measure(folder: Path, count: int, pages: bool) -> dict[str, Any]:
    draw_files(folder / "images", count)
    home, stages = folder / "home", {}
    for stage in STAGES:
        line = [sys.executable, "-m", "tests.benches.scale", stage, str(home), str(folder / "images")]
        done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"{stage} of {count} images failed: {done.stderr.strip()[-500:]}")
        stages[stage] = json.loads(done.stdout.splitlines()[-1])
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return {"stages": stages, "disk_mib": round(size / 2**20), "pages": _pages(home) if pages else {}}


def draw_files(folder: Path, count: int) -> None:
    """Draws `count` images of a study into its folders, with masks: drawn ones first, then links to them."""
    for group, share in PARTS.items():
        there = folder / FOLDERS[group]
        there.mkdir(parents=True)
        (folder / MASKS).mkdir(exist_ok=True, parents=True)
        drawn = min(DRAWN[group], round(share * count))
        for i in range(drawn):
            draw((0, group, i, SIDE, str(folder)))
        files = sorted(there.iterdir())
        for i in range(drawn, round(share * count)):
            source = files[i % drawn]
            os.link(source, there / f"link-{i:06}.png")
            if group == "test_abnormal":
                os.link(folder / MASKS / source.name, folder / MASKS / f"link-{i:06}.png")


def _pages(home: Path) -> dict[str, list]:
    """tab -> [path, milliseconds] of the slowest answer it asked for, the second time that it was opened."""
    store = opening.open(Home.at(home))
    server, url = serve(store)
    slowest = {}
    try:
        with chromium() as browser:
            for tab in TABS:
                for _ in range(2):
                    page = browser.new_page(viewport={"width": 1366, "height": 768})
                    page.set_default_timeout(PATIENCE)
                    page.goto(f"{url}?study={STUDY}&tab={tab}")
                    page.wait_for_function("window.Studio && window.Studio.started")
                    page.wait_for_load_state("networkidle")
                    asked = page.evaluate(ASKED)
                    page.close()
                path, took = max(asked, key=lambda timing: timing[1])
                slowest[tab] = [path, round(took)]
    finally:
        server.terminate()
        server.wait(30)
        store.close()
    return slowest
