"""Benchmark of twenty readers at once."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.access.sessions import Sessions
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.jobs import queue as jobs
from core.studio.review import people
from core.studio.training import requests as training
from tests.benches import bench
from tests.benches._fault import missing
from tests.benches._server import (
    SERVER,
    STUDY,
    TRAINING,
    Heard,
    by_decisions,
    by_time,
    cancel,
    drawn_study,
    percentiles,
    read,
    serve,
    slope,
)

SECONDS, SOAK, READERS = 600.0, 3600.0, 20
THINKS, SLOW = (0.3, 1.2), (3.0, 9.0)  # seconds between picture and decision; of a soak
AT_ONCE = (0.0, 0.0)
RESTLESS = [  # idle threads end at once instead of after 10 s, as in a quiet hour's pauses
    "-c",
    "from anyio._backends import _asyncio as a; a.WorkerThread.MAX_IDLE_TIME = 0; from app.server import main; main()",
]
Thinks = tuple[float, float]


@bench("load")
def load(
    quick: bool = False, seconds: float | None = None, soak: bool = False, decisions: int | None = None
) -> dict[str, Any]:
    """Load: twenty readers decide case after case beside a training, for ten minutes or --seconds; in milliseconds.

    Each reader opens the case, fetches its picture, thinks for a moment and decides, as the page does. --soak: an hour
    with longer thoughts, for the curve of the server's memory. --decisions: so many without thoughts and training, on a
    server that ends its threads whenever they idle, for what each decision and each thread leaves in its memory.

    {"readers", "errors", "lost", "decisions", "decision_ms": {"p50", "p95", "most"}, "case_ms", "picture_ms",
    "memory_mb": of the server, [second, MB] by time, "memory_mb_per_hour": its slope over the second half,
    "load_average": of the machine, [mean, most], "training": its state}. With --decisions "memory_mb" is [decisions,
    MB], and instead of the last three "memory_mb_per_1000" decisions is its slope.
    """
    length = seconds if seconds is not None else (4.0 if quick else SOAK if soak else SECONDS)
    with tempfile.TemporaryDirectory(prefix="pmsacl-load-") as folder:
        store = opening.open(Home.at(Path(folder) / "home"))
        drawn_study(store, STUDY, Path(folder) / "images", 60 if quick else 400, 320, 256)
        job = None if decisions else _train(store, quick)
        server, url = serve(store, "--readers", how=RESTLESS if decisions else SERVER)
        try:
            number = 4 if quick else READERS
            if decisions:
                return _count(store, server, url, decisions, number)
            return _measure(store, server, url, length, number, SLOW if soak else THINKS, job or 0)
        finally:
            server.terminate()
            server.wait(30)
            if job is not None:
                cancel(store, job)
            store.close()


def _train(store: Store, quick: bool) -> int:
    """A training that outlasts the measurement, in a worker of its own, as the page starts one."""
    store.set_setting("device", "cpu")
    queued = training.start(store, STUDY, TRAINING, wake=not quick)
    return int(queued["job"])


def _measure(store: Store, server, url: str, seconds: float, readers: int, thinks: Thinks, job: int) -> dict[str, Any]:
    with _reading(store, url, readers, thinks) as heard:
        curve, loads = by_time(server.pid, seconds)
        trained = jobs.get_job(store, job)["status"]
    machine = {"memory_mb": curve, "memory_mb_per_hour": slope(curve, 3600), "load_average": loads}
    return {
        **_summed(store, heard),
        "readers": readers,
        "seconds_between": list(thinks),
        **machine,
        "training": trained,
    }


def _count(store: Store, server, url: str, decisions: int, readers: int) -> dict[str, Any]:
    with _reading(store, url, readers, AT_ONCE) as heard:
        curve = by_decisions(server.pid, decisions, lambda: sum(len(listener.reviews) for listener in heard))
    memory = {"memory_mb": curve, "memory_mb_per_1000": slope(curve, 1000)}
    return {**_summed(store, heard), "readers": readers, **memory}


@contextmanager
def _reading(store: Store, url: str, readers: int, thinks: Thinks) -> Iterator[list[Heard]]:
    """What the readers measure, each in a thread of its own, while the block runs; whole when it has ended."""
    sessions = Sessions(store)
    heard: list[Heard] = []
    threads = []
    start, stop = threading.Barrier(readers + 1), threading.Event()
    for number in range(readers):
        name = f"reader{number}"
        people.add_reader(store, name, "a long password", "reader")
        heard.append(Heard())
        cookie = f"{sessions.COOKIE}={sessions.start(name)}"
        given = (url, cookie, number, thinks, heard[-1], start, stop)
        threads.append(threading.Thread(target=read, args=given))
    for thread in threads:
        thread.start()
    start.wait(60)
    try:
        yield heard
    finally:
        stop.set()
        for thread in threads:
            thread.join(90)


def _summed(store: Store, heard: list[Heard]) -> dict:
    """Percentiles over all readers; what was answered and is not there, or not as the trail says."""
    answered = [review for listener in heard for review in listener.reviews]
    out: dict = {"decisions": len(answered), "lost": missing(store, answered)}
    for kind in ("decision", "case", "picture"):
        out[f"{kind}_ms"] = percentiles([1000 * s for listener in heard for s in listener.seconds[kind]])
    errors = [text for listener in heard for text in listener.errors]
    return {**out, "errors": len(errors), "first_errors": errors[:5], "cores": os.cpu_count()}
