"""The stages of a study's life, each for a process of its own: what it takes in seconds and memory, as one JSON line.

python -m app.benches._stages STAGE HOME FOLDER
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from app.benches._memory import memory_mb
from core.engine.allocator import most_memory
from core.studio.clusters import library
from core.studio.clusters.config import MapConfig
from core.studio.clusters.step import embed
from core.studio.db import store as stores
from core.studio.db.store import Store
from core.studio.ingest import studies
from core.studio.jobs.steps import Work
from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_fit, create_untrained, fit_run, pretrain_run
from core.studio.runs.results import evaluate_run
from core.studio.runs.scoring import score_run
from core.studio.training import dryrun

STUDY, SIDE = "scale", 64
ENCODER = {"init": "imagenet", "arch": "efficientnet-lite0"}
TRAINING = {"preset": "imagenet", "size": SIDE, "epochs": 1, "batch": 8, "centre_images": 64, "encoder": ENCODER}


def _import(store: Store, folder: Path) -> None:
    studies.import_study(store, STUDY, folder)


def _prepare(store: Store, _: Path) -> None:
    studies.load_arrays(store, STUDY, SIDE)


def _train(store: Store, _: Path) -> None:
    found = dryrun.measure(store.home.path, STUDY, TRAINING, "cpu")
    if "seconds_step" not in found:
        raise RuntimeError(found["message"])


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
    """ "seconds" by the clock, "cpu_seconds" of all threads, "peak_mib" of this process, files that it maps included.

    "own_mib": the most without those files, looked at five times a second; None where the system does not say.
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
    opened = stores.open(sys.argv[2])
    print(json.dumps(measured(sys.argv[1], opened, Path(sys.argv[3]))))
