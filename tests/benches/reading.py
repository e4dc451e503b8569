"""Benchmark of reading: how soon the page answers a decision's key and MedMix's slider."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.calibration.percentiles import Calibration
from core.studio.db import journal, opening
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest.studies import load_arrays
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.runs.readings import reading_rows, write_readings
from core.studio.training import requests as training
from tests.benches import bench
from tests.benches._server import TRAINING, cancel, chromium, drawn_study, percentiles, serve

STUDY, SIDE, MAP = "reading", 512, 64  # pixels of an image and of a heat map
TIMES = 40  # decisions, and moves of the slider
AIMS = {  # milliseconds, for the 95th percentile
    "quiet": {"key_ms": 100.0, "slider_ms": 300.0},
    "training": {"key_ms": 300.0, "slider_ms": 300.0},
}
PATIENCE = 180_000  # milliseconds for whatever the page waits for; a busy machine is slow, which is no failure
BEGUN = 600.0  # seconds in which a training must have its first figures
REVIEW = "document.querySelector('.widget-review')"
PRESSED = "document.addEventListener('keydown', (e) => { window.pressed = e.timeStamp }, true)"
MOVED = """async (slider, values) => {
  const root = slider.closest('.widget-medmix'), found = [];
  for (const value of values) {
    const painted = new Promise((done) => {
      const seen = new MutationObserver(() => {
        seen.disconnect();
        requestAnimationFrame(() => setTimeout(() => done(performance.now())));
      });
      seen.observe(root, { attributeFilter: ['data-painted'] });
    });
    const start = performance.now();
    slider.value = String(value);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    found.push((await painted) - start);
  }
  return found;
}"""
START = """async (body) => {
  const headers = { 'Content-Type': 'application/json' };
  const answer = await fetch('/api/training/start', { method: 'POST', headers, body: JSON.stringify(body) });
  return answer.json();
}"""


@bench("reading")
def reading(quick: bool = False) -> dict[str, Any]:
    """Reading: from a decision's key to the next image, from MedMix's slider to its repaint, in milliseconds.

    Each in headless Chromium on a drawn study of 512 pixels, on a quiet server and beside a training on the same
    machine.

    {"quiet" | "training": {"key_ms" | "slider_ms": {"p50", "p95", "most"}, "load_average"}, "aims", "status", "ratio"}.
    status: of the training when all was measured. ratio: the worst 95th percentile to its aim. quick: a few of each,
    and the training only waits in its queue.
    """
    times = 3 if quick else TIMES
    with opened(2 * times + 10, SIDE) as (store, page, url, _):
        medians: dict[str, Any] = {"quiet": _measured(page, url, times)}
        job = train(store, page, quick)
        medians["training"] = _measured(page, url, times)
        medians["status"] = jobs.get_job(store, job)["status"]
    figures = [medians[when][what]["p95"] / aim for when, aims in AIMS.items() for what, aim in aims.items()]
    return {**medians, "aims": AIMS, "ratio": round(max(figures), 2)}


@contextlib.contextmanager
def opened(cases: int, side: int, later: int = 0) -> Iterator[tuple[Store, Any, str, list[tuple[int, Callable]]]]:
    """Yields a store with a drawn study, a browser's page, the server's address, and what `_add_readings` gives."""
    with tempfile.TemporaryDirectory(prefix="pmsacl-reading-") as folder:
        store = opening.open(Home.at(Path(folder) / "home"))
        drawn_study(store, STUDY, Path(folder) / "images", cases, side, side)
        scores = _add_readings(store, later)
        store.set_setting("device", "cpu")
        server, url = serve(store)
        try:
            with chromium() as browser:
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                page.set_default_timeout(PATIENCE)
                yield store, page, url, scores
        finally:
            for job in jobs.list_jobs(store, "running", "queued"):
                cancel(store, job["id"])
            server.terminate()
            server.wait(30)
            store.close()


def _add_readings(store: Store, later: int) -> list[tuple[int, Callable]]:
    """Adds a fit with drawn heat maps of every case that is not trained on, but for the last `later` cases.

    Returns these cases, each with a function that stores its reading.
    """
    rng = np.random.default_rng(0)
    fit = runs.create_run(store, STUDY, "fit", "padim", {})
    arrays = load_arrays(store, STUDY, MAP)
    rows = np.concatenate([arrays.index("holdout"), arrays.index("test")])
    held = np.arange(len(arrays.index("holdout")))
    coarse = rng.uniform(0, 1, (len(rows), 8, 8)).astype(np.float32)
    maps = np.stack([cv2.resize(heat, (MAP, MAP), interpolation=cv2.INTER_CUBIC) for heat in coarse])
    scores = maps.max((1, 2)).astype(np.float64)
    calibration = Calibration.of(scores[held], maps[held])
    both = {"plain": calibration, "roi": calibration}

    def write(places: np.ndarray) -> None:
        values = {kind: scores[places] for kind in both}
        write_readings(store, reading_rows(store, fit, arrays.case_ids[rows[places]], maps[places], values, both, {}))

    first = len(rows) - later
    write(np.arange(first))
    runs.update_run(store, fit, status="done")
    return [(int(arrays.case_ids[rows[i]]), partial(write, np.array([i]))) for i in range(first, len(rows))]


def train(store: Store, page, quick: bool) -> int:
    """Queues a training and returns its job; unless `quick`, starts it as the page does and awaits first figures."""
    if quick:
        return int(training.start(store, STUDY, TRAINING, wake=False)["job"])
    queued = page.evaluate(START, {"study": STUDY, "config": TRAINING, "name": "beside", "detectors": {}})
    end = time.monotonic() + BEGUN
    while not journal.metrics(store, queued["run"]):
        status = jobs.get_job(store, queued["job"])["status"]
        if status not in ("queued", "running") or time.monotonic() > end:
            raise RuntimeError(f"the training did not begin: its job is {status}")
        time.sleep(0.2)
    return int(queued["job"])


def _measured(page, url: str, times: int) -> dict[str, Any]:
    keys, slides = _keys(page, url, times), _slides(page, url, times)
    load = {"load_average": round(os.getloadavg()[0], 1)} if hasattr(os, "getloadavg") else {}
    return {"key_ms": percentiles(keys), "slider_ms": percentiles(slides), **load}


def _keys(page, url: str, times: int) -> list[float]:
    """From each key of a decision until the next case's first frame is painted; the page is at rest between."""
    page.goto(f"{url}?study={STUDY}&tab=review")
    page.wait_for_function(f"{REVIEW}?.review?.picture")
    page.evaluate(PRESSED)
    delays = []
    for i in range(times):
        page.evaluate(f"{REVIEW}.idle()")
        page.keyboard.press("nau"[i % 3])
        page.wait_for_function(f"{REVIEW}.review.shownAt > window.pressed", polling="raf")
        delays.append(page.evaluate(f"{REVIEW}.review.shownAt - window.pressed"))
    page.evaluate(f"{REVIEW}.idle()")
    return delays


def _slides(page, url: str, times: int) -> list[float]:
    """From each move of one of MedMix's sliders until the mosaic that it asks for is painted."""
    page.goto(f"{url}?study={STUDY}&tab=medmix")
    page.wait_for_selector(".widget-medmix[data-painted]")
    values = [round(0.3 + 0.005 * i, 3) for i in range(1, times + 1)]
    return page.get_by_label("Size of a lesion, highest").evaluate(MOVED, values)
