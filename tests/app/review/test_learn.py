"""Use what readers marked, in the browser: said what there is, learnt beside the old one, compared, read with."""

from __future__ import annotations

import numpy as np
import pytest

from core.studio.db import store as stores
from core.studio.ingest import studies
from tests.app.review.conftest import WIDGET, enter, settle
from tests.conftest import scored_padim
from tests.studio.review.conftest import decide, draw_folder, save_mask

LEARNT = "learnt"


@pytest.fixture(scope="module")
def fit(review_home, tmp_path_factory) -> str:
    """A study of its own with a scored fit, in the home that is served."""
    store = stores.open(str(review_home))
    studies.import_study(store, LEARNT, draw_folder(tmp_path_factory.mktemp("learnt") / "images", 16, 22, 26))
    _, made = scored_padim(store, LEARNT)
    store.close()
    return made


def mark(home, count: int) -> list[int]:
    """The first abnormal cases, which then have an accepted mask."""
    store = stores.open(str(home))
    query = "SELECT * FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal' ORDER BY id LIMIT ?"
    cases = store.query(query, [LEARNT, count])
    for case in cases:
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[20:40, 24:48] = 1
        save_mask(store, case["id"], mask, "ann")
        decide(store, case["id"], "ann", "abnormal")
    store.close()
    return [case["id"] for case in cases]


def test_it_is_offered_learnt_compared_and_never_in_the_old_ones_place(page, page_url, review_home, fit):
    enter(page, page_url, LEARNT)
    opener = page.get_by_role("button", name="Use what readers marked")
    opener.click()
    dialog = page.locator("dialog.rv-learn")
    assert "no accepted mask to learn from" in dialog.inner_text()
    assert dialog.get_by_role("button", name="Learn", exact=True).is_disabled()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")

    marked = mark(review_home, 3)
    opener.click()
    assert "3 accepted masks, by ann." in dialog.inner_text()
    dialog.get_by_role("button", name="Learn", exact=True).click()
    dialog.get_by_role("button", name="Stop").wait_for()  # while it goes on
    table = dialog.locator(".rv-learnt table")
    table.wait_for(timeout=180_000)
    assert "cases that it did not learn from" in dialog.locator(".rv-learn-words").inner_text()
    assert [table.locator("th", has_text=name).count() for name in ("Image AUROC", "PRO")] == [1, 1]
    of = page.get_by_role("group", name="Detector").get_by_role("button")
    of.filter(has_text="Learnt from marks").wait_for()
    assert [of.nth(i).inner_text() for i in range(2)] == ["PaDiM", "Learnt from marks"]
    assert page.evaluate(f"{WIDGET}.review.run") == fit, "nothing changes before somebody asks"
    page.evaluate(f"{WIDGET}.review.detail.before = true")
    dialog.get_by_role("button", name="Read with the new one").click()
    dialog.wait_for(state="detached")
    page.wait_for_function(f"!{WIDGET}.review.detail.before")  # the case is read again
    settle(page)
    assert page.evaluate(f"{WIDGET}.review.run") != fit
    for case, seen in ((marked[0], True), (marked[-1] + 1, False)):
        page.evaluate(f"{WIDGET}.review.goTo({case})")
        page.wait_for_function(f"{WIDGET}.review.detail.id === {case}")
        words = page.evaluate(f"{WIDGET}.review.detail.readings[{WIDGET}.review.run].words")
        assert ("learnt from this case" in words) == seen


def test_stopped_where_it_was_started(page, page_url, review_home, fit):
    """The last of this file: it leaves a run that was never fitted."""
    mark(review_home, 4)
    enter(page, page_url, LEARNT)
    page.get_by_role("button", name="Use what readers marked").click()
    dialog = page.locator("dialog.rv-learn")
    dialog.get_by_role("button", name="Learn", exact=True).click()
    dialog.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Stop").wait_for(state="detached", timeout=120_000)
    assert dialog.get_by_role("button", name="Learn", exact=True).is_enabled()
