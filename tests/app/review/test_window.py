"""What stands on screen is what it says: window and level, the study that is open, local times."""

from __future__ import annotations

import re

import pytest

from tests.app.conftest import routed
from tests.app.review.conftest import STUDY, UNREAD, WIDGET, enter, rows, settle

pytestmark = pytest.mark.long

LABEL = "select[aria-label='Window presets']"


def shown(page) -> str:
    return page.locator(LABEL).evaluate("(s) => s.selectedOptions[0].textContent")


def test_the_label_of_the_window_follows_and_resets(page, page_url):
    enter(page, page_url)
    reset = page.get_by_role("button", name="Reset", exact=True)
    assert shown(page) == "full range" and reset.is_disabled()
    page.locator(LABEL).select_option(label="Dark parts")
    assert shown(page) == "Dark parts"
    page.get_by_label("Level", exact=True).fill("200")
    assert shown(page) == "custom window"
    reset.click()
    assert shown(page) == "full range" and page.evaluate(f"{WIDGET}.review.show.window") is None
    page.locator(LABEL).select_option(label="Bright parts")
    page.locator(".rv-view").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert shown(page) == "full range", "a case begins with its full range"
    page.locator(LABEL).select_option(label="Bright parts")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert shown(page) == "Bright parts" and page.evaluate(f"{WIDGET}.review.show.window.centre") > 128
    page.get_by_role("button", name="Keep", exact=True).click()


def test_another_study_never_stands_beside_the_old_image(page, page_url):
    enter(page, page_url, UNREAD)
    held = []
    routed(page, "**/api/review/open**", lambda route: held.append(route))
    page.evaluate(f"window.Studio.setStudy('{STUDY}')")
    page.wait_for_function(f"{WIDGET}.review.study === '{STUDY}'")
    assert page.evaluate(f"{WIDGET}.review.picture") is None
    assert page.locator(".rv-title").inner_text() == "Loading…"
    assert page.locator(".rv-row[data-id]").count() == 0 and page.locator(".rv-row.skeleton").count() > 3
    blank = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.every((v) => v === 0)"
    assert page.locator(".rv-pane canvas").first.evaluate(blank)
    for route in held:
        route.continue_()
    page.unroute("**/api/review/open**")
    page.wait_for_function(f"{WIDGET}.review.picture && {WIDGET}.review.setup.study === '{STUDY}'")


def test_before_the_first_case_there_are_skeletons_and_no_word_of_blind_reading(page, page_url):
    held = []
    page.route("**/api/review/open**", lambda route: held.append(route))
    page.goto(f"{page_url}?study={STUDY}&tab=review")
    page.wait_for_selector(".rv-row.skeleton")
    assert page.locator(".rv-veil").is_hidden() and page.locator(".rv-waits").is_hidden()
    black = "(pane) => getComputedStyle(pane).backgroundColor === 'rgb(0, 0, 0)'"
    pane = page.locator(".rv-pane").first
    assert not pane.evaluate(black), "no black tile where an image is awaited"
    for route in held:
        route.continue_()
    page.wait_for_function(f"{WIDGET}?.review?.picture")
    assert pane.evaluate(black)


def test_times_are_those_of_the_readers_clock(browser, page_url, review_home):
    case = rows(
        review_home, "SELECT c.id FROM cases c JOIN lesion_masks m ON m.case_id = c.id WHERE c.study = ?", STUDY
    )
    context = browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB", viewport={"width": 1366, "height": 768})
    page = context.new_page()
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.goTo({case[0][0]})")
    settle(page)
    page.evaluate("import('/page/static/format.js').then((f) => { window.moment = f.moment })")
    page.wait_for_function("window.moment")
    assert page.evaluate("window.moment('2026-11-21T18:10:00.000Z')") == "22 Nov 2026, 03:10"
    drawn = "(m) => Object.assign(m, {source: 'hand', reader: 'ann', reference: false})"
    page.evaluate(f"{WIDGET}.review.detail.masks.forEach({drawn}); {WIDGET}.review.redraw()")
    text = page.locator("select[aria-label='Version of the lesion mask'] option").nth(1).inner_text()
    assert re.search(r"\d{1,2} \w{3} \d{4}, \d\d:\d\d", text) and "T" not in text.split(",")[-1]
    context.close()
