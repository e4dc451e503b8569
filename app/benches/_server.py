"""What the benches of the server share: a study of drawn images, and the server over it in a process of its own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np

from app.benches._readers import connect
from core.studio.db.store import Store
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs

ROOT = Path(__file__).resolve().parents[2]
TRAINING = {"size": 64, "epochs": 10_000, "batch": 8}  # outlasts any measurement
SERVER = ["-m", "app.server"]


def drawn_study(store: Store, study: str, folder: Path, cases: int, width: int, height: int) -> None:
    """Import 40 normal images and `cases` to be read, of smooth colours drawn from a seed."""
    rng = np.random.default_rng(0)
    for part, count in (("train/normal", 40), ("test/unknown", cases)):
        (folder / part).mkdir(parents=True)
        for i in range(count):
            coarse = rng.integers(60, 200, (8, 8, 3), np.uint8)
            pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / part / f"{i:04}.png"), pixels)
    import_study(store, study, folder)


def serve(store: Store, *options: str, how: list[str] = SERVER) -> tuple[subprocess.Popen[str], str]:
    """The process and its address, once it answers. how: what Python is to run."""
    line = [sys.executable, *how, "--home", str(store.home.path), "--port", "0", *options]
    server = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError):
            connection = connect(url)
            connection.request("GET", "/sign-in")
            if connection.getresponse().status in (200, 303):
                return server, url
        time.sleep(0.1)
    server.kill()
    raise RuntimeError("the server did not come up")


def cancel(store: Store, job: int) -> None:
    """End a job and wait until its worker has let go of it."""
    jobs.cancel(store, job)
    end = time.monotonic() + 60
    while time.monotonic() < end and jobs.get_job(store, job)["status"] in ("running", "queued"):
        time.sleep(0.2)


def percentiles(found: list[float]) -> dict[str, float]:
    """ "p50", "p95" and "most", to a tenth; nothing of nothing."""
    if not found:
        return {}
    cuts = statistics.quantiles(found, n=20, method="inclusive") if len(found) > 1 else found * 19
    return {name: round(value, 1) for name, value in (("p50", cuts[9]), ("p95", cuts[18]), ("most", max(found)))}
