"""The Study tab in a browser: a watched folder, the audit trail, and what an administrator sets."""

import os

import pytest

from core.studio.bundle import export_bundle
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.review import decisions, people
from tests.app.conftest import Served, manage
from tests.conftest import picture, write
from tests.studio.ingest.recordings import write_video
from tests.studio.review.conftest import asks, decide, draw_folder

pytestmark = pytest.mark.long

SHOTS = os.environ.get("SHOTS")
ROOM = "document.querySelector('.widget-review')"


@pytest.fixture(scope="module")
def managed(own_home, tmp_path_factory):
    base = tmp_path_factory.mktemp("managed")
    home = own_home("home")
    store = opening.open(str(home))
    for name in ("Ada", "Ben"):
        people.add_reader(store, name, "a long password")
    other = opening.open(str(base / "other"))
    studies.import_study(other, "moved", draw_folder(base / "moved", 4, 2, 2))
    export_bundle(other, "moved", base / "moved.zip", "root")
    other.close()
    server = Served(home)
    yield base, server, store
    server.stop()
    store.close()


def shown(page):
    return page.evaluate(f"{ROOM}.review.detail?.id")


def test_what_is_dropped_into_a_watched_folder_joins_the_open_worklist(page, managed, go):
    base, server, store = managed
    (base / "inbox").mkdir()
    go(page, server.url, "Study", "small")
    manage(page, "Watched folder")
    form = page.locator(".m-watch")
    form.get_by_label("Folder on this machine").fill(str(base / "nowhere"))
    form.get_by_role("button", name="Watch", exact=True).click()
    page.locator(".toast.bad").wait_for()
    assert "create it first" in page.locator(".toast.bad").inner_text()
    form.get_by_label("Folder on this machine").fill(str(base / "inbox"))
    form.get_by_role("button", name="Watch", exact=True).click()
    form.get_by_role("button", name="Stop watching").wait_for()
    page.get_by_role("tab", name="Review", exact=True).click()
    page.wait_for_function(f"{ROOM}.review?.detail && {ROOM}.review.list.counts?.ok")
    before, total = shown(page), page.evaluate(f"{ROOM}.review.list.counts.total")
    write(base / "inbox" / "dropped.png", picture(77)[0])
    (base / "inbox" / "broken.jpg").write_text("no picture")
    page.locator(".rv-row[title='dropped.png']").wait_for(
        timeout=480_000
    )  # a worker process of its own starts on a busy machine
    assert page.evaluate(f"{ROOM}.review.list.counts.total") == total + 1 and shown(page) == before
    page.get_by_role("tab", name="Study", exact=True).click()
    form.get_by_text("1 imported").wait_for()
    assert "broken.jpg: not an image" in form.inner_text()
    form.get_by_role("button", name="Stop watching").click()
    form.get_by_role("button", name="Watch", exact=True).wait_for()


def test_readers_labels_added_cases_and_a_bundle(page, managed, go, tmp_path):
    base, server, store = managed
    go(page, server.url, "Study", "small")
    manage(page, "Reading assignments")
    readers = page.locator(".m-readers")
    for name in ("Ada", "Ben"):
        readers.get_by_label(name, exact=True).check()
    readers.get_by_role("combobox").select_option("2")
    readers.get_by_role("button", name="Assign").click()
    readers.get_by_role("button", name="unassign").first.wait_for()
    dealt = store.query("SELECT reader, count(*) AS n FROM assignments GROUP BY reader")
    assert len(dealt) == 2 and dealt[0]["n"] == dealt[1]["n"] >= 12
    manage(page, "Finding labels")
    labels = page.locator(".m-labels")
    labels.get_by_role("textbox").fill("serrated polyp\nadenoma\n\n")
    labels.get_by_role("button", name="Save", exact=True).click()
    page.locator(".toast.good").wait_for()
    assert decisions.finding_labels(store, "small") == ["serrated polyp", "adenoma"]
    page.get_by_text("Add cases", exact=True).click()
    adding = page.locator(".m-add")
    adding.get_by_label("File or folder on this machine").fill(str(write_video(tmp_path / "later.avi", 50, "MJPG")))
    adding.get_by_label("Frames per second").fill("5")
    adding.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("10 images imported").wait_for()
    frames = [c["frame"] for c in store.query("SELECT frame FROM cases WHERE name LIKE 'later.avi%' ORDER BY frame")]
    assert frames == list(range(0, 50, 5))
    page.locator("input.bundle").set_input_files(str(base / "moved.zip"))
    page.get_by_role("heading", name="moved").wait_for()
    assert store.one("SELECT count(*) AS n FROM cases WHERE study = 'moved'")["n"] == 8


def test_a_case_is_erased_after_what_there_is_of_it_was_named(page, managed, go):
    base, server, store = managed
    case = store.one("SELECT id, path FROM cases WHERE study = 'small' AND split = 'test' LIMIT 1")
    go(page, server.url, "Study", "small")
    manage(page, "Erase a patient")
    panel = page.locator(".m-erase")
    panel.get_by_label("Case number").fill(str(case["id"]))
    panel.get_by_role("button", name="Find", exact=True).click()
    panel.get_by_role("listitem").first.wait_for()
    assert "1 case" in panel.inner_text()
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/erase.png")
    panel.get_by_role("button", name="Erase these data").click()
    page.get_by_role("button", name="Erase 1 case").click()
    panel.get_by_text("Erased").first.wait_for()
    assert store.one("SELECT 1 FROM cases WHERE id = ?", [case["id"]]) is None
    assert store.one("SELECT kind FROM events ORDER BY id DESC LIMIT 1")["kind"] == "erase"


def test_the_trail_opens_filters_and_goes_on(page, managed, go):
    _, server, store = managed
    case = store.one("SELECT id, name FROM cases WHERE study = ? AND split = 'test'", ["small"])
    for n in range(60):
        decide(store, case["id"], "Ada", "normal", comment=f"look {n}")
    decisions.undo(asks(store, "Ada", study="small"))
    go(page, server.url, "Study", "small")
    manage(page, "Audit trail")
    rows = page.locator(".m-audit tbody tr")
    rows.first.wait_for()
    assert rows.count() == 50 and "undo" in rows.first.inner_text() and case["name"] in rows.first.inner_text()
    page.get_by_role("button", name="Older", exact=True).click()
    rows.nth(60).wait_for()
    page.get_by_label("What was done").select_option("undo")
    page.wait_for_function("document.querySelectorAll('.m-audit tbody tr').length === 1")
    page.get_by_label("What was done").select_option("decision")
    rows.nth(49).wait_for()
    assert "comment look 59" in rows.first.inner_text()
