"""Faults of long work: a training whose disk fills up, SIGTERM to a worker, a kill while a bundle is made."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import cv2
import numpy as np

from core.engine import files
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training import checkpoint
from core.studio.bundle import export_bundle
from core.studio.db import leftovers
from core.studio.db.store import Store
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.benches import ROOT
from tests.benches._fault import Outcome, Place, decide, killed, missing

TRAININGS = 5  # of a place's tries at most: each takes half a minute on a busy machine
EPOCHS = 12  # of a training that is stopped in the middle
WORKING = """
import signal
import sys
from core.studio.db.home import Home
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.jobs import worker
signal.signal(signal.SIGTERM, worker.stop)
worker._alone.set()
worker.run_queue(opening.open(Home.at(sys.argv[1])))
"""
EXPORTING = """
import sys
from pathlib import Path
from core.studio.db.home import Home
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.bundle import export_bundle
store = opening.open(Home.at(sys.argv[1]))
print("ready", flush=True)
export_bundle(store, "n", Path(sys.argv[2]), "bench")
print("done", flush=True)
"""


def _study(place: Place, store: Store, count: int = 8) -> None:
    folder = place.folder / "images"
    folder.mkdir(exist_ok=True)
    for i in range(count):
        pixels = np.frombuffer(place.draw.randbytes(48 * 64 * 3), np.uint8).reshape(48, 64, 3)
        cv2.imwrite(str(folder / f"{i:03}.png"), pixels)
    import_study(store, "n", folder, copy=True)


def _training(store: Store, epochs: int = 2) -> tuple[str, int]:
    small = {"size": 32, "batch": 2, "epochs": epochs, "encoder.arch": "test_resnet", "encoder.init": "random"}
    run = pipeline.create_pretrain(store, "n", PRETRAIN_PRESETS["quick"].replace(**small))
    return run, jobs.submit(store, pipeline.chain(run), start=False)


def _weights(store: Store, run: str) -> bytes:
    return (runs.run_folder(store, run) / "encoder.safetensors").read_bytes()


def disk_full_in_training(place: Place) -> Outcome:
    """Fills the disk up at a random write of a training.

    It ends with a sentence and nothing half-made, and comes to the same weights once there is room.
    """
    outcome = Outcome("disk full in training")
    store = place.home()
    _study(place, store)
    whole, _ = _training(store)
    every, real = checkpoint.Checkpoints.__init__.__defaults__, files.os.fsync
    checkpoint.Checkpoints.__init__.__defaults__ = (0.0,)  # a checkpoint at each step
    try:
        worker.run_queue(store)
        weights = _weights(store, whole)
        for _ in range(min(place.tries, TRAININGS)):
            left = [place.draw.randrange(6)]

            def fsync(descriptor: int, left=left) -> None:
                if not left[0]:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                left[0] -= 1
                real(descriptor)

            run, job = _training(store)
            files.os.fsync = fsync  # type: ignore[assignment]
            try:
                worker.run_queue(store)
            finally:
                files.os.fsync = real
            row = jobs.get_job(store, job)
            outcome.leaked += row["status"] != "failed" or not str(row["error"]).startswith("The disk is full")
            outcome.leaked += len([f for f in runs.run_folder(store, run).rglob(".*") if f.is_file()])
            with outcome.timed():
                jobs.resume(store, job, start=False)
                worker.run_queue(store)
                outcome.lost += jobs.get_job(store, job)["status"] != "done" or _weights(store, run) != weights
    finally:
        checkpoint.Checkpoints.__init__.__defaults__ = every
    store.close()
    return outcome


def sigterm_in_training(place: Place) -> Outcome:
    """Sends SIGTERM to a worker at a random step of a training.

    The worker ends at a checkpoint within ten seconds, decisions made beside it stay, and the training goes on to the
    same weights.
    """
    outcome = Outcome("SIGTERM in training")
    store = place.home()
    _study(place, store)
    whole, _ = _training(store, EPOCHS)
    worker.run_queue(store)
    weights, answered = _weights(store, whole), list[int]()
    for number in range(min(place.tries, TRAININGS)):
        run, job = _training(store, EPOCHS)
        line = [sys.executable, "-c", WORKING, str(store.home.path)]
        child = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while child.poll() is None and not jobs.get_job(store, job)["progress"]:
            time.sleep(0.05)
        answered.append(decide(store, number))
        time.sleep(place.draw.uniform(0.0, 1.0))
        child.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        child.wait(60)
        outcome.leaked += time.monotonic() - asked > 10
        with outcome.timed():
            if jobs.get_job(store, job)["status"] not in ("done", "queued"):
                jobs.resume(store, job, start=False)
            worker.run_queue(store)
            outcome.lost += jobs.get_job(store, job)["status"] != "done" or _weights(store, run) != weights
    outcome.lost += missing(store, answered)
    store.close()
    return outcome


def killed_while_exporting(place: Place) -> Outcome:
    """Kills a process while it makes a bundle.

    No file has the bundle's name unless it is whole, and the next one is whole.
    """
    outcome = Outcome("killed while exporting")
    store = place.home()
    _study(place, store, 24)
    for number in range(place.tries):
        target = place.folder / f"out-{number}.zip"
        killed(EXPORTING, [str(store.home.path), str(target)], lambda n: n == 1, place.draw.uniform(0.0, 0.2))
        if target.exists():
            outcome.leaked += _broken(target)
        leftovers.sweep(store, older=0)
        outcome.leaked += len([f for f in store.home.path.rglob("*") if f.suffix == ".zip"])
        with outcome.timed():
            export_bundle(store, "n", place.folder / "whole.zip", "bench")
            outcome.lost += _broken(place.folder / "whole.zip")
    store.close()
    return outcome


def _broken(file: Path) -> bool:
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is not None or "manifest.json" not in archive.namelist()
    except zipfile.BadZipFile:
        return True


FAULTS = (disk_full_in_training, sigterm_in_training, killed_while_exporting)
