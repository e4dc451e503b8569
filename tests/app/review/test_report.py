"""The printed report of one case."""

import pytest

from tests.app.review.conftest import STUDY, WIDGET, enter, settle


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
