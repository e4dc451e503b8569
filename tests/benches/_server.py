"""Helpers of the page's benchmarks: the server over a drawn study, its readers, its memory, and the browser."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import cv2
import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from tests.benches import ROOT

STUDY = "load"
KEPT = 3.0  # seconds; the server keeps an idle connection for 5


@dataclass
class Heard:
    """What one reader measured: seconds of each call by kind, what went wrong, the reviews that were answered."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"case": [], "picture": [], "decision": []})
    errors: list[str] = field(default_factory=list)
    reviews: list[int] = field(default_factory=list)


def connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)


def read(
    url: str,
    cookie: str,
    seed: int,
    thinks: tuple[float, float],
    heard: Heard,
    start: threading.Barrier,
    stop: threading.Event,
) -> None:
    """Plays a reader who decides until `stop`: the unread cases, then all again.

    thinks: least and most seconds before a decision.
    """
    draw = random.Random(seed)
    connection = connect(url)
    case, unread, listed = 0, 1, {"study": STUDY, "split": "test"}

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
                asked = urlencode({**listed, "case": 0, "back": 0, "unread": unread})
                case_shown = json.loads(call("case", "GET", f"/api/review/step?{asked}"))["case"]
                if not case_shown:
                    unread = 0
                    continue
                case = case_shown["id"]
            call("picture", "GET", f"/api/case/{case}/pack")
            pause = draw.uniform(*thinks)
            if stop.wait(pause):
                return
            if pause > KEPT:  # the server has closed the connection meanwhile: a browser would open another by itself
                connection.close()
            decision = draw.choice(["normal", "abnormal", "unsure"])
            body = {"case": case, "decision": decision, "token": f"{seed}-{case}-{draw.random()}", "list": listed}
            done = json.loads(call("decision", "POST", "/api/review/decide", body))
            heard.reviews.append(done["review"])
            case = (done["next"] or {}).get("id", 0)
        except Exception as error:
            heard.errors.append(f"{type(error).__name__}: {error}"[:200])
            connection.close()
            case = 0


SAMPLES = 120  # points of a curve
PATIENCE = 60.0  # seconds in which a server must take a decision
Curve = list[list[float]]


def by_time(pid: int, seconds: float) -> tuple[Curve, list[float]]:
    """Records a process's memory for some seconds, and the machine's load average.

    -> [second, MB] by time, and the load's mean and most.
    """
    curve, loads = [], []
    began = time.monotonic()
    while (now := time.monotonic() - began) <= seconds:
        memory = memory_mb(pid)
        if memory is not None:
            curve.append([round(now, 1), memory])
        if hasattr(os, "getloadavg"):
            loads.append(os.getloadavg()[0])
        time.sleep(min(max(seconds / SAMPLES, 0.1), max(seconds - now, 0.01)))
    return curve, [round(statistics.mean(loads), 1), round(max(loads), 1)] if loads else []


def by_decisions(pid: int, count: int, done: Callable[[], int]) -> Curve:
    """Records a process's memory as [decisions, MB] until it has taken `count`, or takes none for PATIENCE seconds.

    done: returns how many it has.
    """
    curve: Curve = []
    moved, last = time.monotonic(), 0
    while (now := done()) < count and time.monotonic() - moved < PATIENCE:
        if now > last:
            moved, last = time.monotonic(), now
        memory = memory_mb(pid)
        if memory is not None and (not curve or now - curve[-1][0] >= count / SAMPLES):
            curve.append([now, memory])
        time.sleep(0.05)
    return curve


def slope(curve: Curve, per: float) -> float | None:
    """Fits a curve's growth in MB for each `per`, by least squares over the second half; None for under three points.

    In the second half what is loaded once has been loaded.
    """
    half = np.array([point for point in curve if point[0] >= curve[-1][0] / 2])
    return None if len(half) < 3 else round(float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * per, 2)


def memory_mb(pid: int, what: str = "VmRSS") -> float | None:
    """Returns the MB that a process holds in memory; None where the system does not say.

    what: "VmRSS" for all, "RssAnon" for all but mapped files, "VmHWM" for the most so far.
    """
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return round(int(next(line for line in lines if line.startswith(what)).split()[1]) / 1024, 1)
    return None


TRAINING = {"size": 64, "epochs": 10_000, "batch": 8}  # outlasts any measurement
SERVER = ["-m", "app.server"]


def drawn_study(store: Store, study: str, folder: Path, cases: int, width: int, height: int) -> None:
    """Imports a study of 40 normal images and `cases` to be read, of smooth colours drawn from a seed."""
    rng = np.random.default_rng(0)
    for subfolder, count in (("train/normal", 40), ("test/unknown", cases)):
        (folder / subfolder).mkdir(parents=True)
        for i in range(count):
            coarse = rng.integers(60, 200, (8, 8, 3), np.uint8)
            pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / subfolder / f"{i:04}.png"), pixels)
    import_study(store, study, folder)


def serve(store: Store, *options: str, how: list[str] = SERVER) -> tuple[subprocess.Popen[str], str]:
    """Starts a server and returns its process and address, once it answers. how: what Python is to run."""
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
    """Ends a job and waits until its worker has let go of it."""
    jobs.cancel(store, job)
    end = time.monotonic() + 60
    while time.monotonic() < end and jobs.get_job(store, job)["status"] in ("running", "queued"):
        time.sleep(0.2)


def percentiles(values: list[float]) -> dict[str, float]:
    """Returns "p50", "p95" and "most" of the values, to a tenth; {} where there are none."""
    if not values:
        return {}
    cuts = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else values * 19
    return {name: round(value, 1) for name, value in (("p50", cuts[9]), ("p95", cuts[18]), ("most", max(values)))}


@contextlib.contextmanager
def chromium():
    """Yields a browser: Playwright's Chromium, or the system's.

    Raises ValueError, which says what to do, when there is none.
    """
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise ValueError("this bench needs a browser: run `python launch.py test` once, which installs it") from None
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(args=options)
        except Error:
            program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
            if not program:
                raise ValueError("this bench needs Chromium: run `python launch.py test` once") from None
            browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()
