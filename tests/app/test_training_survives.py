"""Cancelled, reloaded, looked at from a second browser, the app or the worker killed: a training comes to the same end.

Each is compared with a training of the same settings that nobody touched: on a processor the weights are the same bit
for bit, and every step is reported exactly once.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request

import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.db import opening
from core.studio.runs import records as runs
from core.studio.training import live
from tests.app.conftest import STUDY, Served
from tests.conftest import ARCH, wait
from tests.holding import BUSY, held, steps

pytestmark = [pytest.mark.longest, pytest.mark.timeout(1200)]  # seconds; a quiet machine takes one or two minutes
EPOCHS = 20  # 80 steps: a training is held while a person is slow, and there is time before its end to hold it
CONFIG = PRETRAIN_PRESETS["quick"].replace(
    size=32, batch=4, epochs=EPOCHS, k=2, snapshot_every=EPOCHS, **{"encoder.arch": ARCH}
)


def begin(url: str) -> str:
    """Queues the training, as the page's button does; the run's id."""
    body = json.dumps({"study": STUDY, "config": CONFIG.to_dict(), "name": "", "detectors": {}}).encode()
    request = urllib.request.Request(f"{url}api/training/start", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["run"]


def outcome(home, run: str) -> dict:
    """What the end of a training is: its weights, and what it reported of each step."""
    opened = opening.open(str(home))
    # The job's end, not the run's: in between, the last steps are reported.
    wait(lambda: live.jobs_of_runs(opened)[run]["status"] == "done", BUSY, f"the end of {run}")
    assert runs.get_run(opened, run)["status"] == "done"
    folder = runs.run_folder(opened, run)
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return {
        "weights": (folder / "encoder.safetensors").read_bytes(),
        "steps": steps(home, run),
        "history": [(line["step"], line["loss"], line["spread"]) for line in lines],
    }


@pytest.fixture(scope="module")
def untouched(served) -> dict:
    """The training that nobody touches."""
    found = outcome(served.home, begin(served.url))
    count = len(found["steps"])
    assert count >= 2 * EPOCHS and found["steps"] == list(range(1, count + 1))
    return found


def open_room(page, url: str) -> None:
    page.goto(f"{url}?study={STUDY}&tab=training")
    page.wait_for_selector(".widget-training[data-ready]")
    page.get_by_role("tab", name="Training", exact=True).click()


def open_run(page, url: str, run: str) -> None:
    open_room(page, url)
    page.locator(f"tr[data-run='{run}']").click()


def shown(page, run: str, words: str) -> None:
    page.locator(f"tr[data-run='{run}'] .state").filter(has_text=words).wait_for(timeout=300_000)


def test_cancelled_and_resumed(page, page_url, served, untouched):
    open_room(page, page_url)
    run = begin(page_url)
    page.locator(f"tr[data-run='{run}']").click()
    with held(served.home, run):
        page.get_by_role("button", name="Cancel run").click()
        with page.expect_response("**/cancel"):
            page.locator("dialog").get_by_role("button", name="Cancel run").click()
    shown(page, run, "stopped")
    done = len(steps(served.home, run))
    assert 0 < done < len(untouched["steps"])
    page.get_by_role("button", name="Resume").click()
    shown(page, run, "done")
    assert outcome(served.home, run) == untouched


def test_reloaded_and_steered_from_a_second_browser(page, page_url, served, browser, untouched):
    second = browser.new_context(viewport={"width": 1366, "height": 768}).new_page()
    second.set_default_timeout(120_000)
    for one in (page, second):
        open_room(one, page_url)
    run = begin(page_url)
    second.locator(f"tr[data-run='{run}']").click()
    with held(served.home, run):
        page.reload(wait_until="commit")
        with second.expect_response("**/pause"):
            second.get_by_role("button", name="Pause").click()
    for one in (second, page):
        shown(one, run, "paused")
    before = steps(served.home, run)
    second.get_by_role("button", name="Resume").click()
    for one in (page, second):
        shown(one, run, "done")
    second.context.close()
    assert 0 < len(before) < len(untouched["steps"])
    assert outcome(served.home, run) == untouched


def test_the_worker_is_killed(page, page_url, served, untouched):
    open_room(page, page_url)
    run = begin(page_url)
    page.locator(f"tr[data-run='{run}']").click()
    with held(served.home, run) as worker:
        os.kill(worker, signal.SIGKILL)
    shown(page, run, "interrupted")
    page.get_by_role("button", name="Resume").click()
    shown(page, run, "done")
    assert outcome(served.home, run) == untouched


def test_the_app_is_killed_and_started_again(page, small_home, untouched):
    own = Served(small_home)  # a server that may be killed: the others' stays
    try:
        run = begin(own.url)
        port = int(own.url.rsplit(":", 1)[1].strip("/"))
        with held(small_home, run):
            own.kill()
            done = len(steps(small_home, run))
        wait(lambda: len(steps(small_home, run)) > done, BUSY, "a step without the app")
        own.start(port)
        open_run(page, own.url, run)
        shown(page, run, "done")
        assert outcome(small_home, run) == untouched
    finally:
        own.stop()
