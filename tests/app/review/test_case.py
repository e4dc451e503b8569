"""What is shown of a case beside its image: metadata, labels that wait, the nearest normal patch, timeline, report."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.studio.db import opening
from tests.app.review.conftest import SESSIONS, STUDY, WIDGET, enter, rows, settle

ROWS = "all => all.map((one) => [one.children[0].innerText, one.children[1].innerText])"


def rows_of(page) -> dict[str, str]:
    """The rows of the opened panel, by their titles."""
    page.evaluate(f"{WIDGET}.review.display.set({{ about: true }})")
    return dict(page.locator(".rv-about-rows > div").evaluate_all(ROWS))


@pytest.mark.long
def test_the_panel_has_the_case_and_in_a_session_under_neutral_names_its_size_alone(page, page_url):
    enter(page, page_url, SESSIONS)
    rows = rows_of(page)
    case = page.evaluate(f"(({{ width, height, name }}) => [width, height, name])({WIDGET}.review.detail)")
    assert (rows["Size"], rows["File"]) == (f"{case[0]} × {case[1]} pixels", case[2])
    assert rows["Format"] in ("PNG", "JPEG") and rows["Study"].startswith(f"{SESSIONS}, ") and "Imported" in rows
    body = {"study": SESSIONS, "choice": "all", "count": 4, "blind": False, "shuffled": True, "neutral": True}
    assert page.request.post(f"{page_url}api/reading/start", data=body).ok
    try:
        enter(page, page_url, SESSIONS)
        rows = rows_of(page)
        assert rows["File"].startswith("Case ") and set(rows) <= {"File", "Size", "Depth", "Modality", "Spacing"}
        assert page.get_by_text("More is shown in sessions without neutral names.").is_visible()
    finally:
        page.request.post(f"{page_url}api/reading/end", data={})


CASE = f"{WIDGET}.review.detail.id"
LESION = f"Boolean({WIDGET}.review.lesion)"


@pytest.fixture
def masked(page, page_url, review_home):
    """An undecided case with an imported mask, on screen; its number."""
    found = rows(
        review_home,
        "SELECT c.id FROM cases c JOIN lesion_masks m ON m.case_id = c.id AND m.source = 'import' WHERE c.study = ? "
        "AND c.split = 'test' AND NOT EXISTS (SELECT 1 FROM lesion_masks n WHERE n.case_id = c.id AND n.version > 1) "
        "AND NOT EXISTS (SELECT 1 FROM reviews r WHERE r.case_id = c.id AND r.active = 1) ORDER BY c.id DESC",
        STUDY,
    )
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.show.truth = false; {WIDGET}.review.goTo({found[0][0]})")
    settle(page)
    return found[0][0]


def test_the_imported_mask_waits_for_the_decision(page, masked):
    assert page.evaluate(LESION) is False and page.locator(".rv-waits").is_visible()
    assert page.locator(".rv-dice").inner_text() == "–", "no overlap with a mask that is not shown"
    page.keyboard.press("n")
    settle(page)
    page.evaluate(f"{WIDGET}.review.goTo({masked})")
    settle(page)
    assert page.evaluate(LESION) is True and page.locator(".rv-waits").is_hidden()
    page.keyboard.press("z")
    settle(page)


@pytest.mark.long
def test_the_imported_mask_is_shown_when_it_is_asked_for(page, masked):
    page.keyboard.press("m")
    page.wait_for_function(LESION)
    page.locator(".rv-dice").filter(has_not_text="–").wait_for()


@pytest.mark.long
def test_a_name_that_tells_the_label_waits_too(page, masked):
    telling = f"(() => {{ const r = {WIDGET}.review; r.detail.name = 'polyp-12.png'; r.redraw() }})()"
    page.evaluate(telling)
    title = page.locator(".rv-title")
    assert title.inner_text().replace("\n", "").startswith("Case ") and "polyp" not in title.get_attribute("title")
    page.evaluate(f"{WIDGET}.review.revealed.add({masked})")
    page.evaluate(telling)
    assert title.inner_text().replace("\n", "") == "polyp-12.png"


@pytest.mark.long
def test_the_two_patches_and_how_far_they_are_apart(page, page_url, review_home):
    opened = opening.open(str(review_home))
    train = opened.one("SELECT id, name, width, height FROM cases WHERE study = ? AND split = 'train'", [STUDY])
    found = {"ok": True, "box": [0.5, 0.5, 0.6, 0.6], "there": [0.1, 0.2, 0.2, 0.3], "case": {**train, "v": ""},
             "distance": 7.25, "usual": {"median": 2.0, "largest": 3.5, "count": 12}}  # fmt: skip
    asked = []

    def answer(route):
        asked.append(route.request.url)
        route.fulfill(json=found)

    page.route("**/api/case/*/explain*", answer)
    enter(page, page_url)
    panel = page.locator(".rv-explained")
    page.keyboard.press("x")
    page.wait_for_function(f"{WIDGET}.review.show.nearest")
    assert panel.is_hidden() and not asked, "other detectors compare with no single patch"
    page.keyboard.press("x")
    page.evaluate(f"for (const run of {WIDGET}.review.setup.runs) run.compares = true")
    page.keyboard.press("x")
    panel.wait_for()
    assert "distance 7.25 (12 held-out normals: median 2.00, maximum 3.50)" in panel.inner_text()
    assert Path(train["name"]).stem in panel.locator("figcaption").last.inner_text()
    boxes = panel.locator("svg").evaluate_all("all => all.map((s) => s.getBoundingClientRect().width)")
    assert len(boxes) == 2 and min(boxes) > 60
    rect = panel.locator("rect").last
    assert float(rect.get_attribute("x")) == 0.1 * train["width"]
    page.keyboard.press("x")
    panel.wait_for(state="hidden")


@pytest.mark.long
def test_a_recording_has_its_timeline_and_a_key_to_the_next_peak(page, page_url):
    enter(page, page_url, "film")
    frame = f"{WIDGET}.review.detail.frame"
    page.wait_for_selector(".rv-timeline svg")
    page.evaluate(f"{WIDGET}.review.goTo([...{WIDGET}.review.list.rows.keys()].sort((a, b) => a - b)[0])")
    settle(page)
    assert page.evaluate(frame) == 0
    seen = []
    for _ in range(3):
        page.keyboard.press("k")
        settle(page)
        seen.append(page.evaluate(frame))
    assert seen == [9, 30, 9]
    box = page.locator(".rv-timeline svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 20.5 / 40, box["y"] + 20)
    settle(page)
    assert page.evaluate(frame) == 20
    enter(page, page_url)
    assert not page.locator(".rv-timeline").is_visible()


@pytest.mark.long
def test_slices_in_files_of_their_own_have_one_timeline_too(page, page_url, review_home):
    places = dict(rows(review_home, "SELECT id, slice FROM cases WHERE study = 'volume' AND split = 'test'"))
    enter(page, page_url, "volume")
    page.wait_for_selector(".rv-timeline svg")

    def shown():
        settle(page)
        return 40 - places[page.evaluate(f"{WIDGET}.review.detail.id")]  # numbered from the far end

    box = page.locator(".rv-timeline svg").bounding_box()
    for at in (0, 20, 39):
        page.mouse.click(box["x"] + box["width"] * (at + 0.5) / 40, box["y"] + 20)
        assert shown() == at
    reached = []
    for _ in range(3):
        page.keyboard.press("k")
        reached.append(shown())
    assert reached == [9, 30, 9]


@pytest.mark.long
def test_the_report_holds_pictures_reading_decision_version_and_the_research_line(page, page_url):
    enter(page, page_url)
    page.evaluate("() => { window.print = () => { window.printed = (window.printed || 0) + 1 } }")
    page.keyboard.press("ArrowRight")
    settle(page)
    page.keyboard.press("n")
    page.keyboard.press("ArrowLeft")
    settle(page)
    page.get_by_role("button", name="Report", exact=True).click()
    page.wait_for_function("window.printed === 1")
    page.emulate_media(media="print")
    sheet = page.locator(".rv-report")
    assert sheet.is_visible() and not page.locator("#rooms").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light", "the margin is white too"
    text = sheet.inner_text()
    name, title = page.evaluate(f"[{WIDGET}.review.detail.name, {WIDGET}.review.setup.runs[0].title]")
    version = page.evaluate(f"{WIDGET}.review.setup.version")
    for part in (name, STUDY, title, "reader: normal", f"version {version}", "research use"):
        assert part in text, part
    drawn = """(i) => { const c = document.createElement('canvas'); c.width = c.height = 40;
        const x = c.getContext('2d'); x.drawImage(i, 0, 0, 40, 40);
        return new Set(x.getImageData(0, 0, 40, 40).data).size }"""
    images = sheet.locator("img")
    assert images.count() >= 2 and all(images.nth(i).evaluate(drawn) > 20 for i in range(images.count()))
    page.emulate_media(media="screen")
    assert sheet.is_hidden()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator(".rv-report").count() == 0
    page.keyboard.press("z")
    settle(page)
