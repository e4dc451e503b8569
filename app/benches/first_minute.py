"""The first minute of a newcomer: from the command, in an empty home, to the first scored case on the screen.

With PMSACL_PICTURES=FOLDER each moment is kept as a picture of the page at 1366 x 768.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from app.benches._clusters_page import chromium
from app.benches._server import cancel
from app.benches.start import opened
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.jobs import queue as jobs
from core.studio.jobs.records import NOT_ENDED

AIM = 60.0  # seconds to the first scored case
PATIENCE = 600_000  # milliseconds for each; a busy machine is slow, which is no failure
SCORED = """document.querySelector('#tab-review-button')?.getAttribute('aria-selected') === 'true'
  && document.querySelector('.widget-review')?.review?.picture
  && !document.querySelector('.widget-review').innerText.includes('has not scored the case')"""
MOMENTS = {  # in their order: what is waited for
    "page": "window.Studio && window.Studio.started",
    "card": "document.querySelector('.study-main .plan h2, .study-main .plan h3')?.innerText",
    "study": "window.Studio.study === 'demo' && document.querySelector('.tiles svg image')",
    "first_case": SCORED,
}


def run(quick: bool = False) -> dict[str, Any]:
    """{"answer", "page", "card", "study", "first_case"}: seconds since the command; "load_average".

    answer: of the server; page: its tabs are there; card: it says what is being made and how long that takes; study:
    the demo study is drawn and open; first_case: Review opens on a scored case by itself. ratio: first_case to a
    minute. quick: no further than the page, of a home in which no demo is drawn, and that to a minute.
    """
    moments = ["page"] if quick else list(MOMENTS)
    pictures = os.environ.get("PMSACL_PICTURES")
    with tempfile.TemporaryDirectory(prefix="pmsacl-first-") as home, chromium() as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.set_default_timeout(PATIENCE)
        began = time.perf_counter()
        with opened(home, *([] if quick else ["--demo"])) as (url, answered):
            try:
                found: dict[str, Any] = {"answer": round(answered, 1)}
                page.goto(url)
                for moment in moments:
                    page.wait_for_function(MOMENTS[moment], polling=200)
                    found[moment] = round(time.perf_counter() - began, 1)
                    if pictures:
                        page.screenshot(path=Path(pictures) / f"{moment}.png")
            finally:
                _stop(Path(home))
    return {**found, "load_average": round(os.getloadavg()[0], 1), "ratio": round(found[moments[-1]] / AIM, 2)}


def _stop(home: Path) -> None:
    """End what the studio has begun by itself."""
    store = Store(Home.at(home))
    for job in jobs.list_jobs(store, *NOT_ENDED):
        cancel(store, job["id"])
    store.close()
