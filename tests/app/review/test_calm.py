"""The page keeps calm: Back stays within it, nothing is squeezed, and what is on its way is said to be."""

from __future__ import annotations

import pytest

from app.page import TABS
from tests.app.review.conftest import SESSIONS, STUDY, WIDGET, enter, settle

pytestmark = pytest.mark.long

TAB = "window.Studio?.started && window.Studio.tab"


def test_back_and_forward_go_through_the_tabs_and_studies_that_were_open(page, page_url):
    enter(page, page_url)
    for tab in ("Results", "Study"):
        page.get_by_role("tab", name=tab, exact=True).click()
        page.wait_for_function(f"{TAB} === '{tab.lower()}'")
    page.evaluate(f"window.Studio.chooseStudy('{SESSIONS}')")
    page.wait_for_function(f"window.Studio.study === '{SESSIONS}'")
    for study, tab in ((STUDY, "study"), (STUDY, "results"), (STUDY, "review")):
        page.go_back()
        page.wait_for_function(f"{TAB} === '{tab}' && window.Studio.study === '{study}'")
        page.wait_for_function(f"location.search.includes('study={study}') && location.search.includes('tab={tab}')")
    assert page.get_by_role("tab", name="Review", exact=True).get_attribute("aria-selected") == "true"
    page.go_forward()
    page.wait_for_function(f"{TAB} === 'results'")
    assert page.evaluate("window.Studio.study") == STUDY


def test_an_unknown_study_is_said_and_another_one_is_not_opened_silently(page, page_url):
    page.goto(f"{page_url}?study=nobody-knows-it&tab=study")
    page.get_by_text("There is no study “nobody-knows-it” here").wait_for()


@pytest.mark.parametrize("width", [1024, 1366])
def test_two_notes_can_both_be_read(page, page_url, width):
    page.set_viewport_size({"width": width, "height": 768})
    enter(page, page_url)
    page.evaluate(
        """async () => { const { toast } = await import('/page/static/dialogs.js');
        toast('A decision that was kept in this browser could not be stored, and is sent again in a moment.', 'bad');
        toast('Saved as version 2 (3121 pixels).', 'good'); }"""
    )
    boxes = page.locator(".toast").evaluate_all("all => all.map((one) => one.getBoundingClientRect().toJSON())")
    assert len(boxes) == 2 and all(box["width"] >= 150 for box in boxes), boxes


def test_name_and_decision_stand_above_the_image_and_nothing_scrolls(page, page_url):
    """At the size of a lecture hall's projector, with all that the bar can hold."""
    enter(page, page_url)
    page.evaluate(
        f"""() => {{ const {{ review }} = {WIDGET};
        review.detail.name = 'colonoscopy-2024-03-18-sigmoid-proximal-frame-0412.png';
        review.detail.mine = [{{ active: 1, stage: 'first', decision: 'abnormal', comment: '' }},
          {{ active: 1, stage: 'second', decision: 'normal', comment: '' }}];
        review.redraw(); }}"""
    )
    for name, least in ((".rv-title", 110), (".rv-state", 90)):
        assert page.locator(name).bounding_box()["width"] >= least, name
    bar, stage = page.locator(".rv-stage .rv-top").bounding_box(), page.locator(".rv-stage").bounding_box()
    last = page.locator(".rv-stage .rv-top > :last-child").bounding_box()
    assert last["x"] + last["width"] <= stage["x"] + stage["width"] + 1 and bar["height"] <= 32
    assert page.evaluate("document.scrollingElement.scrollHeight") <= 768


def test_on_a_slow_network_the_page_says_that_it_loads(page, page_url):
    page.route("**/assets/*.js", lambda route: None)
    page.goto(page_url, wait_until="commit")
    page.wait_for_function(
        "document.body && getComputedStyle(document.body, '::before').content.includes('is loading')"
    )
    page.unroute("**/assets/*.js")
    page.route("**/api/review/step*", lambda route: None)
    page.goto(f"{page_url}?study={STUDY}&tab=review")
    page.wait_for_function(f"{WIDGET}?.review?.study")
    assert page.locator(".rv-title").inner_text() == "Loading…", "not: No case"
    assert page.evaluate("getComputedStyle(document.body, '::before').content") == "none"


def test_a_blind_session_asks_for_nothing_that_is_refused(page, page_url):
    body = {"study": SESSIONS, "choice": "all", "count": 6, "blind": True, "shuffled": True, "neutral": True}
    assert page.request.post(f"{page_url}api/reading/start", data=body).ok
    refused: list[str] = []
    page.on("response", lambda r: refused.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    try:
        enter(page, page_url, SESSIONS)
        for title in TABS.values():
            page.get_by_role("tab", name=title, exact=True).click()
            page.wait_for_load_state("networkidle")
        settle(page)
        assert not refused, "\n".join(refused)
    finally:
        page.request.post(f"{page_url}api/reading/end", data={})
