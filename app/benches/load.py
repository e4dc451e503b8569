"""Load: twenty readers decide case after case beside a training, for ten minutes or --seconds; in milliseconds.

Each reader opens the case, fetches its picture, thinks for a moment and decides, as the page does.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import cv2
import numpy as np

from app.access.sessions import Sessions
from core.studio.benches._fault import missing
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.review import accounts
from core.studio.training import requests as training

ROOT = Path(__file__).resolve().parents[2]
STUDY, SECONDS, READERS, THINKS = "load", 600.0, 20, (0.3, 1.2)


@dataclass
class Heard:
    """What one reader measured: seconds of each call by kind, what went wrong, the reviews that were answered."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"case": [], "picture": [], "decision": []})
    errors: list[str] = field(default_factory=list)
    reviews: list[int] = field(default_factory=list)


def run(quick: bool = False, seconds: float | None = None) -> dict:
    """{"readers", "errors", "lost", "decisions", "decision_ms": {"p50", "p95", "most"}, "case_ms", "picture_ms",

    "memory_mb": of the server, at the start and at the end, "training": its state}.
    """
    length = seconds if seconds is not None else (4.0 if quick else SECONDS)
    with tempfile.TemporaryDirectory(prefix="pmsacl-load-") as folder:
        store = _home(Path(folder), 60 if quick else 400)
        job = _train(store, Path(folder), quick)
        server, url = _serve(store)
        try:
            return _measure(store, server, url, length, 4 if quick else READERS, job)
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
            connection = _connect(url)
            connection.request("GET", "/sign-in")
            if connection.getresponse().status == 200:
                return server, url
        time.sleep(0.1)
    raise RuntimeError("the server did not come up")


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)


def _measure(store: Store, server, url: str, seconds: float, readers: int, job: int) -> dict:
    sessions = Sessions(store)
    heard, threads = [], []
    start, end = threading.Barrier(readers + 1), time.monotonic() + 3600
    stop = threading.Event()
    for number in range(readers):
        name = f"reader{number}"
        accounts.add_reader(store, name, "a long password", "reader")
        heard.append(Heard())
        cookie = f"{sessions.COOKIE}={sessions.start(name)}"
        threads.append(threading.Thread(target=_read, args=(url, cookie, number, heard[-1], start, stop)))
    for one in threads:
        one.start()
    start.wait(60)
    before = _memory_mb(server.pid)
    began = time.monotonic()
    stop.wait(min(seconds, end - began))
    trained = jobs.get_job(store, job)["status"]
    after = _memory_mb(server.pid)
    stop.set()
    for one in threads:
        one.join(90)
    return {**_summed(store, heard), "readers": readers, "memory_mb": [before, after], "training": trained}


def _read(url: str, cookie: str, seed: int, heard: Heard, start: threading.Barrier, stop: threading.Event) -> None:
    draw = random.Random(seed)
    connection = _connect(url)
    case, listed = 0, {"study": STUDY, "split": "test"}

    def call(kind: str, method: str, path: str, body: dict | None = None) -> bytes:
        started = time.monotonic()
        head = {"Cookie": cookie, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), head)
        answer = connection.getresponse()
        content = answer.read()
        heard.seconds[kind].append(time.monotonic() - started)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {content[:200]!r}")
        return content

    start.wait(60)
    while not stop.is_set():
        try:
            if not case:
                asked = urlencode({**listed, "case": 0, "back": 0, "unread": 1})
                found = json.loads(call("case", "GET", f"/api/review/step?{asked}"))["case"]
                if not found:
                    return
                case = found["id"]
            call("picture", "GET", f"/api/case/{case}/pack")
            if stop.wait(draw.uniform(*THINKS)):
                return
            decision = draw.choice(["normal", "abnormal", "unsure"])
            body = {"case": case, "decision": decision, "token": f"{seed}-{case}-{draw.random()}", "list": listed}
            done = json.loads(call("decision", "POST", "/api/review/decide", body))
            heard.reviews.append(done["review"])
            case = (done["next"] or {}).get("id", 0)
        except Exception as error:
            heard.errors.append(f"{type(error).__name__}: {error}"[:200])
            connection.close()
            case = 0


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
