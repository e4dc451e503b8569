"""Benchmark of how the page follows what is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.benches import bench
from tests.benches._server import percentiles
from tests.benches.reading import REVIEW, STUDY, opened, train

TABS = ("review", "training")
PERCENTILE = "document.querySelector(`.rv-row[data-id='%d'] .rv-pct`)?.textContent"
REST = 2500  # milliseconds between two scores


@bench("following")
def following(quick: bool = False) -> dict[str, Any]:
    """Following: requests of an open page, and from a score's storing to its showing, in headless Chromium.

    {"idle": requests to the studio in a minute by the open tab, "training": the same beside a training on this machine,
    "shows_ms": from the commit of a score, of another process, to the row that shows it}. quick: a few seconds of each.
    """
    seconds, times = (3.0, 2) if quick else (60.0, 20)
    with opened(2 * times + 10, 128, times) as (store, page, url, scores):
        idle = {tab: _asked(page, url, tab, seconds) for tab in TABS}
        delays = _shown(page, url, scores)
        train(store, page, quick)
        beside = {tab: _asked(page, url, tab, seconds) for tab in TABS}
    return {"idle": idle, "training": beside, "shows_ms": percentiles(delays)}


def _asked(page, url: str, tab: str, seconds: float) -> float:
    """Requests to the studio's own routes in a minute, of a page that nobody touches."""
    page.goto(f"{url}?study={STUDY}&tab={tab}")
    page.wait_for_selector(f".widget-{tab}[data-ready]")
    page.wait_for_timeout(5000)  # what opening it asks for
    asked: list[str] = []
    note = lambda request: "/api/" in request.url and asked.append(request.url)  # noqa: E731
    page.on("request", note)
    page.wait_for_timeout(1000 * seconds)
    page.remove_listener("request", note)
    return round(60 * len(asked) / seconds, 1)


def _shown(page, url: str, scores: list[tuple[int, Callable]]) -> list[float]:
    """Milliseconds from each score's commit until the row of its case has it; the page is at rest between."""
    page.goto(f"{url}?study={STUDY}&tab=review")
    page.wait_for_function(f"{REVIEW}?.review?.picture && /^\\D+$/.test({PERCENTILE % scores[0][0]})")
    delays = []
    for case, store_it in scores:
        page.wait_for_timeout(REST)
        store_it()
        stored = time.monotonic()
        page.wait_for_function(f"/\\d/.test({PERCENTILE % case})", polling=20)
        delays.append(1000 * (time.monotonic() - stored))
    return delays
