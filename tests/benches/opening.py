"""Benchmarks of the start: from the command to a page, and to a newcomer's first case."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.jobs import queue as jobs
from core.studio.jobs.queue import NOT_ENDED
from tests.benches import ROOT, Aim, bench
from tests.benches._server import cancel, chromium

PATIENCE = 300.0  # seconds


@bench("start", Aim(1, key="over_import"))
def start(quick: bool = False) -> dict[str, Any]:
    """Start: seconds from the command to a page that answers, against importing torch and gradio alone.

    Medians of 5 (quick: 1). "over_import": seconds beyond those of the imports; "ratio": to those of the imports.
    """
    rounds = 1 if quick else 5
    pages, imports = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch, gradio"], check=True, cwd=ROOT)
        imports.append(time.perf_counter() - started)
        pages.append(_until_answered())
    page, bare = (sorted(times)[rounds // 2] for times in (pages, imports))
    return {"ratio": page / bare, "over_import": page - bare, "page": page, "imports": bare}


def _until_answered() -> float:
    """Seconds from the command to the first page."""
    with tempfile.TemporaryDirectory() as home, opened(home) as (_, seconds):
        return seconds


@contextmanager
def opened(home: str, *options: str, root: Path = ROOT) -> Iterator[tuple[str, float]]:
    """Starts the server: yields the page's address and the seconds from the command to its first answer.

    The server ends with the context. root: the checkout that it is of.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    line = [sys.executable, "launch.py", "app", "--home", home, "--port", str(port), "--no-browser", *options]
    started = time.perf_counter()
    process = subprocess.Popen(line, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(url):
            if time.perf_counter() - started > PATIENCE:
                raise RuntimeError(f"no page after {PATIENCE:.0f} s")
            time.sleep(0.02)
        yield url, time.perf_counter() - started
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            answer.read()
            return True
    except OSError:
        return False


AIM = 10.0  # seconds from the page to the demo's first case with its heat map
MINUTE = 60.0  # seconds to the page, at most
MINUTE_PATIENCE = 600_000  # milliseconds for each; a busy machine is slow, which is no failure
SCORED = """document.querySelector('#tab-review-button')?.getAttribute('aria-selected') === 'true'
  && document.querySelector('.widget-review')?.review?.picture
  && document.querySelector('.widget-review').review.heat"""
MOMENTS = {  # in their order: what is waited for
    "page": "window.Studio && window.Studio.started",
    "study": "window.Studio.study === 'demo'",
    "first_case": SCORED,
}


@bench("first-minute")
def first_minute(quick: bool = False) -> dict[str, Any]:
    """The first minute of a newcomer: from the command, in an empty home, to the first scored case on the screen.

    With PMSACL_PICTURES=FOLDER each moment is kept as a picture of the page at 1366 x 768.

    {"answer", "page", "study", "first_case", "wait"}: seconds since the command; "load_average".

    answer: of the server; page: its tabs are there; study: the demo study is open, after one click; first_case: Review
    shows a case with its heat map. wait: from the page to that case; ratio: that to AIM. quick: no further than the
    page, and that to a minute.
    """
    moments = ["page"] if quick else list(MOMENTS)
    pictures = os.environ.get("PMSACL_PICTURES")
    with tempfile.TemporaryDirectory(prefix="pmsacl-first-") as home, chromium() as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.set_default_timeout(MINUTE_PATIENCE)
        began = time.perf_counter()
        with opened(home) as (url, answered):
            try:
                opening: dict[str, Any] = {"answer": round(answered, 1)}
                page.goto(url)
                for moment in moments:
                    page.wait_for_function(MOMENTS[moment], polling=200)
                    opening[moment] = round(time.perf_counter() - began, 1)
                    if pictures:
                        page.screenshot(path=Path(pictures) / f"{moment}.png")
                    if moment == "page" and not quick:
                        page.get_by_role("button", name="Show me the demo").click()
            finally:
                _stop(Path(home))
    opening["load_average"] = round(os.getloadavg()[0], 1)
    if quick:
        return {**opening, "ratio": round(opening["page"] / MINUTE, 2)}
    wait = opening["first_case"] - opening["page"]
    return {**opening, "wait": round(wait, 1), "ratio": round(wait / AIM, 2)}


def _stop(home: Path) -> None:
    """End what the studio has begun by itself."""
    store = opening.open(Home.at(home))
    for job in jobs.list_jobs(store, *NOT_ENDED):
        cancel(store, job["id"])
    store.close()
