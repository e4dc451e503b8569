"""What readers mark, in the browser: marked, offered, learnt beside the old one, compared, adopted, rolled back."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from core.engine.segment import lite_medsam
from core.studio.db import opening
from core.studio.ingest import studies
from tests.app.review.conftest import WIDGET, enter, rows, settle
from tests.conftest import scored_padim
from tests.studio.review.conftest import decide, draw_folder, save_mask

pytestmark = pytest.mark.long

LEARNT = "learnt"


@pytest.fixture(scope="module")
def fit(review_home, tmp_path_factory) -> str:
    """A study of its own with a scored fit, in the home that is served."""
    store = opening.open(str(review_home))
    studies.import_study(store, LEARNT, draw_folder(tmp_path_factory.mktemp("learnt") / "images", 16, 22, 26))
    _, made = scored_padim(store, LEARNT)
    store.close()
    return made


def mark(home, count: int) -> list[int]:
    """The first abnormal cases, which then have an accepted mask."""
    store = opening.open(str(home))
    query = "SELECT * FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal' ORDER BY id LIMIT ?"
    cases = store.query(query, [LEARNT, count])
    for case in cases:
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[20:40, 24:48] = 1
        save_mask(store, case["id"], mask, "ann")
        decide(store, case["id"], "ann", "abnormal")
    store.close()
    return [case["id"] for case in cases]


def abnormal(home, count: int) -> list[int]:
    """The numbers of the first abnormal cases."""
    query = "SELECT id FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal' ORDER BY id LIMIT ?"
    return [number for (number,) in rows(home, query, LEARNT, count)]


def mark_here(page, case: int) -> None:
    """A reader's way: snap (or a stroke, where the model of boxes is missing), save, all marked, abnormal."""
    page.evaluate(f"{WIDGET}.review.goTo({case})")
    page.wait_for_function(f"{WIDGET}.review.detail?.id === {case} && {WIDGET}.review.heat")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    if lite_medsam.file():
        page.mouse.move(box["x"] + box["width"] + 400, box["y"])  # the hottest blob, for the pointer is elsewhere
        page.keyboard.press(";")
    else:
        page.keyboard.press("b")
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2 + 60, box["y"] + box["height"] / 2 + 20, steps=4)
        page.mouse.up()
    page.wait_for_function(f"{WIDGET}.review.editor.history.length === 1", timeout=120_000)
    page.keyboard.press("s")
    page.wait_for_function(f"{WIDGET}.review.detail.masks.some((m) => m.source !== 'import')")
    page.keyboard.press("=")
    page.wait_for_function(f"{WIDGET}.review.detail.marks.finished")
    assert page.get_by_role("button", name="Fully annotated").get_attribute("aria-pressed") == "true"
    page.keyboard.press("a")
    page.wait_for_function(f"{WIDGET}.review.detail.id !== {case}")
    settle(page)


@pytest.mark.timeout(1200)  # five marks are learnt from; on a busy machine that takes minutes
def test_marked_offered_learnt_compared_adopted_and_rolled_back(page, page_url, review_home, fit):
    enter(page, page_url, LEARNT)
    opener = page.get_by_role("button", name="Learn from marks")
    opener.click()
    dialog = page.locator("dialog.rv-learn")
    assert "no accepted mask to learn from" in dialog.inner_text()
    assert dialog.get_by_role("button", name="Learn", exact=True).is_disabled()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")
    offer = page.locator(".rv-offer")
    assert offer.is_hidden()

    enter(page, page_url, LEARNT)
    assert offer.is_hidden(), "nothing is decided yet"
    first = abnormal(review_home, 6)[-1]
    page.evaluate(f"{WIDGET}.review.goTo({first})")
    page.wait_for_function(f"{WIDGET}.review.detail?.id === {first}")
    page.keyboard.press("a")
    offer.get_by_text("Mark five lesions: a detector learns from them.").wait_for()
    assert "0 of 5" in offer.inner_text()
    settle(page)

    marked = abnormal(review_home, 5)
    for case in marked:
        mark_here(page, case)
    assert rows(review_home, "SELECT count(*) FROM case_marks WHERE finished = 1")[0][0] == 5
    offer.get_by_text("5 lesions marked. Learn from them now?").wait_for()
    offer.get_by_role("button", name="Learn").click()
    offer.get_by_text("Learning from 5 masks").wait_for()
    offer.get_by_role("button", name="Before and after").wait_for(timeout=900_000)
    assert re.search(
        r"On \d+ unseen cases it .*finds \d+ of \d+ abnormal(, as before| instead of \d+)",
        offer.inner_text(),
    ), "the headline is the gain, in numbers"
    assert page.evaluate(f"{WIDGET}.review.run") == fit, "nothing changes before somebody asks"
    offer.get_by_role("button", name="Before and after").click()
    pictures = dialog.locator(".rv-before-after canvas")
    pictures.last.wait_for()
    assert pictures.count() == 8, "four cases, before and after"
    inked = "canvas => new Set(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data).size"
    assert all(pictures.nth(i).evaluate(inked) > 10 for i in range(8)), "each picture is drawn"
    if shots := os.environ.get("PMSACL_SHOTS"):
        page.screenshot(path=f"{shots}/before-after.png")
    dialog.get_by_text("All figures").click()
    table = dialog.locator(".rv-learnt table")
    table.wait_for()
    assert "unseen cases" in dialog.inner_text()
    assert [table.locator("th", has_text=name).count() for name in ("Image AUROC", "PRO")] == [1, 1]

    dialog.get_by_role("button", name="Side by side").click()
    dialog.wait_for(state="detached")
    page.wait_for_function(f"{WIDGET}.review.second?.run === '{fit}'")
    learnt = page.evaluate(f"{WIDGET}.review.run")
    captions = page.locator(".rv-caption:visible").all_inner_texts()
    assert captions == ["Learnt from marks", "PaDiM"]
    for case, seen in ((marked[0], True), (marked[-1] + 1, False)):
        page.evaluate(f"{WIDGET}.review.goTo({case})")
        page.wait_for_function(f"{WIDGET}.review.detail.id === {case}")
        words = page.evaluate(f"{WIDGET}.review.detail.readings['{learnt}'].words")
        assert ("trained on this case" in words) == seen

    of = page.get_by_role("group", name="Detector").get_by_role("button")
    for button, titles in (("Adopt", ["Learnt from marks", "PaDiM"]), ("Roll back", ["PaDiM", "Learnt from marks"])):
        opener.click()
        with page.expect_response("**/adopt"):
            dialog.get_by_role("button", name=button, exact=True).click()
        other = "Roll back" if button == "Adopt" else "Adopt"
        dialog.get_by_role("button", name=other, exact=True).wait_for()
        dialog.get_by_role("button", name="Close").click()
        enter(page, page_url, LEARNT)  # anew, as any reader of the study finds it
        assert of.all_inner_texts() == titles
        assert page.evaluate(f"{WIDGET}.review.run") == (learnt if button == "Adopt" else fit)
    kinds = "SELECT kind FROM events WHERE kind IN ('adopted', 'marks') ORDER BY id"
    assert [kind for (kind,) in rows(review_home, kinds)] == ["marks"] * 5 + ["adopted"] * 2


def test_places_called_normal_are_a_drawing_of_their_own_and_come_back(page, page_url, review_home, fit):
    enter(page, page_url, LEARNT)
    case = abnormal(review_home, 8)[-1]
    page.evaluate(f"{WIDGET}.review.goTo({case})")
    page.wait_for_function(f"{WIDGET}.review.detail?.id === {case}")
    settle(page)
    page.keyboard.press("#")
    page.wait_for_function(f"{WIDGET}.review.editor.origin?.source === 'normal'")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y, steps=3)
    page.mouse.up()
    drawn = page.evaluate(f"{WIDGET}.review.editor.mask.reduce((a, b) => a + b, 0)")
    page.get_by_role("button", name="Save as normal").click()
    page.wait_for_function(f"{WIDGET}.review.detail.marks.normal && !{WIDGET}.review.editor.mask")
    assert not rows(review_home, "SELECT 1 FROM lesion_masks WHERE case_id = ? AND source != 'import'", case)
    page.keyboard.press("#")
    page.wait_for_function(f"{WIDGET}.review.editor.mask?.reduce((a, b) => a + b, 0) === {drawn}")


def test_stopped_where_it_was_started(page, page_url, review_home, fit):
    """The last of this file: it leaves a run that was never fitted."""
    mark(review_home, 4)
    enter(page, page_url, LEARNT)
    page.get_by_role("button", name="Learn from marks").click()
    dialog = page.locator("dialog.rv-learn")
    dialog.get_by_role("button", name="Learn", exact=True).click()
    dialog.get_by_role("button", name="Stop").click()
    dialog.get_by_role("button", name="Stop").wait_for(state="detached", timeout=120_000)
    assert dialog.get_by_role("button", name="Learn", exact=True).is_enabled()
