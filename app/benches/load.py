"""Load: twenty readers decide case after case beside a training, for ten minutes or --seconds; in milliseconds.

Each reader opens the case, fetches its picture, thinks for a moment and decides, as the page does. --soak: an hour
with longer thoughts, for the curve of the server's memory.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np

from app.access.sessions import Sessions
from app.benches._readers import STUDY, Heard, connect, read
from core.studio.benches._fault import missing
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.review import accounts
from core.studio.training import requests as training

ROOT = Path(__file__).resolve().parents[2]
SECONDS, SOAK, READERS = 600.0, 3600.0, 20
THINKS, SLOW = (0.3, 1.2), (3.0, 9.0)  # seconds between picture and decision; of a soak
SAMPLES = 120  # points of the memory's curve
Thinks = tuple[float, float]


def run(quick: bool = False, seconds: float | None = None, soak: bool = False) -> dict:
    """{"readers", "errors", "lost", "decisions", "decision_ms": {"p50", "p95", "most"}, "case_ms", "picture_ms",

    "memory_mb": of the server, [second, MB] by time, "memory_mb_per_hour": its slope over the second half,
    "load_average": of the machine, [mean, most], "training": its state}.
    """
    length = seconds if seconds is not None else (4.0 if quick else SOAK if soak else SECONDS)
    with tempfile.TemporaryDirectory(prefix="pmsacl-load-") as folder:
        store = _home(Path(folder), 60 if quick else 400)
        job = _train(store, Path(folder), quick)
        server, url = _serve(store)
        try:
            return _measure(store, server, url, length, 4 if quick else READERS, SLOW if soak else THINKS, job)
        finally:
            server.terminate()
            server.wait(30)
            jobs.cancel(store, job)
            _until_ended(store, job)
            store.close()


def _home(folder: Path, cases: int) -> Store:
    store = Store(Home.at(folder / "home"))
    rng = np.random.default_rng(0)
    for part, count in (("train/normal", 40), ("test/unknown", cases)):
        (folder / "images" / part).mkdir(parents=True)
        for i in range(count):
            coarse = rng.integers(60, 200, (8, 8, 3), np.uint8)
            pixels = cv2.resize(coarse, (320, 256), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / "images" / part / f"{i:04}.png"), pixels)
    import_study(store, STUDY, folder / "images")
    return store


def _train(store: Store, folder: Path, quick: bool) -> int:
    """A training that outlasts the measurement, in a worker of its own, as the page starts one."""
    config = {"size": 64, "epochs": 10_000, "batch": 8}
    store.set_setting("device", "cpu")
    made = training.start(store, STUDY, config, wake=not quick)
    return int(made["job"])


def _until_ended(store: Store, job: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and jobs.get_job(store, job)["status"] in ("running", "queued"):
        time.sleep(0.2)


def _serve(store: Store) -> tuple[subprocess.Popen[str], str]:
    line = [sys.executable, "-m", "app.server", "--home", str(store.home.path), "--port", "0", "--readers"]
    server = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError):
            connection = connect(url)
            connection.request("GET", "/sign-in")
            if connection.getresponse().status == 200:
                return server, url
        time.sleep(0.1)
    raise RuntimeError("the server did not come up")


def _measure(store: Store, server, url: str, seconds: float, readers: int, thinks: Thinks, job: int) -> dict:
    sessions = Sessions(store)
    heard, threads = [], []
    start, stop = threading.Barrier(readers + 1), threading.Event()
    for number in range(readers):
        name = f"reader{number}"
        accounts.add_reader(store, name, "a long password", "reader")
        heard.append(Heard())
        cookie = f"{sessions.COOKIE}={sessions.start(name)}"
        given = (url, cookie, number, thinks, heard[-1], start, stop)
        threads.append(threading.Thread(target=read, args=given))
    for one in threads:
        one.start()
    start.wait(60)
    curve, loads = _watch(server.pid, seconds)
    trained = jobs.get_job(store, job)["status"]
    stop.set()
    for one in threads:
        one.join(90)
    machine = {"memory_mb": curve, "memory_mb_per_hour": _slope(curve), "load_average": loads, "training": trained}
    return {**_summed(store, heard), "readers": readers, "seconds_between": list(thinks), **machine}


def _watch(pid: int, seconds: float) -> tuple[list[list[float]], list[float]]:
    """The server's memory by time, and the machine's load average: its mean and its most."""
    curve, loads = [], []
    began = time.monotonic()
    while (now := time.monotonic() - began) <= seconds:
        memory = _memory_mb(pid)
        if memory is not None:
            curve.append([round(now, 1), memory])
        if hasattr(os, "getloadavg"):
            loads.append(os.getloadavg()[0])
        time.sleep(min(max(seconds / SAMPLES, 0.1), max(seconds - now, 0.01)))
    return curve, [round(statistics.mean(loads), 1), round(max(loads), 1)] if loads else []


def _slope(curve: list[list[float]]) -> float | None:
    """MB per hour by least squares over the second half, when what is loaded once has been loaded."""
    half = np.array(curve[len(curve) // 2 :])
    return None if len(half) < 3 else round(float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * 3600, 1)


def _summed(store: Store, heard: list[Heard]) -> dict:
    """Percentiles over all readers; what was answered and is not there, or not as the trail says."""
    answered = [review for one in heard for review in one.reviews]
    out: dict = {"decisions": len(answered), "lost": missing(store, answered)}
    for kind in ("decision", "case", "picture"):
        found = sorted(1000 * s for one in heard for s in one.seconds[kind])
        cuts = statistics.quantiles(found, n=20) if len(found) > 1 else found * 19
        named = {"p50": cuts[9], "p95": cuts[18], "most": found[-1]} if cuts else {}
        out[f"{kind}_ms"] = {name: round(value, 1) for name, value in named.items()}
    errors = [text for one in heard for text in one.errors]
    return {**out, "errors": len(errors), "first_errors": errors[:5], "cores": os.cpu_count()}


def _memory_mb(pid: int) -> float | None:
    """What a process holds in memory; None where the system does not say."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return round(int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024, 1)
    return None
