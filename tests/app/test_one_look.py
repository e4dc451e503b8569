"""One look for the whole page: one typeface, check boxes that are seen in focus, nothing said that is cut."""

import pytest

from tests.app.conftest import manage
from tests.app.test_sizes import TABS, page_url, sized

pytestmark = pytest.mark.long

__all__ = ["page_url", "sized"]  # fixtures
FACES = """() => [...new Set([...document.querySelectorAll('body *')]
  .filter((e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))
  .map((e) => getComputedStyle(e).fontFamily.split(',')[0]))]"""
SELECTOR = "(e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right] })"


def test_every_tab_and_dialog_has_one_typeface_and_the_selector_rests_in_one_place(page, page_url, go):
    places = []
    for tab in TABS:
        go(page, page_url, tab)
        page.wait_for_load_state("networkidle")
        assert page.evaluate(FACES) == ["system-ui"], tab
        places.append(page.locator("#study-picker").evaluate(SELECTOR))
    assert all(place == places[0] for place in places) and 1280 < places[0][2] < 1340, "beside the switch of the theme"
    go(page, page_url, "Study")
    manage(page, "Remove study")
    dialog = page.locator("dialog.ask")
    dialog.wait_for()
    faces = dialog.evaluate("d => [d, ...d.querySelectorAll('*')].map((e) => getComputedStyle(e).fontFamily)")
    assert {face.split(",")[0] for face in faces} == {"system-ui"}


def test_a_check_box_has_the_pages_colour_and_is_seen_in_focus(page, page_url, go):
    go(page, page_url, "Study")
    accent = page.evaluate("getComputedStyle(document.querySelector('.widget')).getPropertyValue('--accent').trim()")
    ring = page.evaluate(
        "c => { const e = document.createElement('i'); e.style.color = c; document.body.append(e);"
        " const found = getComputedStyle(e).color; e.remove(); return found }",
        accent,
    )
    page.get_by_role("button", name="Import a study").click()
    box = page.locator(".study-room .copy")
    box.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    style = box.evaluate("e => { const s = getComputedStyle(e); return [s.outlineColor, s.outlineStyle] }")
    assert style == [ring, "solid"]
    shown = page.locator(".show-roi").evaluate("e => getComputedStyle(e).backgroundColor")
    red, green, blue = (int(part) for part in shown.removeprefix("rgb(").rstrip(")").split(","))
    assert green > 1.5 * red and abs(green - blue) < 60, "teal as the buttons, no browser's blue"


def test_where_there_are_no_numbers_yet_the_words_are_whole(page, page_url, go):
    for width, height in ((1366, 768), (800, 1100)):
        page.set_viewport_size({"width": width, "height": height})
        go(page, page_url, "Training")
        page.locator(".training-room tr[data-run]:not(.child)").last.click()
        words = page.locator(".training-room .board .none:visible")
        words.first.wait_for()
        inside = "all => all.every((e) => { const b = e.getBoundingClientRect(), o = e.closest('.block')"
        inside += ".getBoundingClientRect(); return b.top >= o.top && b.bottom <= o.bottom && b.right <= o.right })"
        assert words.evaluate_all(inside), (width, height)


NAMED_OTHERWISE = """() => [...document.querySelectorAll('#rooms :is(button, a)[aria-label]')].filter((e) =>
  e.checkVisibility() && /[a-z]{3}/i.test(e.innerText)
  && !e.ariaLabel.toLowerCase().includes(e.innerText.trim().toLowerCase())).map((e) => e.ariaLabel)"""
HEADLESS = """() => [...document.querySelectorAll('#rooms table')].filter((t) =>
  t.checkVisibility() && t.rows.length && !t.querySelector('th')).length"""


def test_each_tab_has_one_heading_one_main_heads_of_tables_and_names_that_are_read(page, page_url, go):
    for tab in TABS:
        go(page, page_url, tab)
        page.wait_for_load_state("networkidle")
        assert page.locator("h1:visible").count() == 1 and page.locator("main:visible").count() == 1, tab
        assert page.evaluate(NAMED_OTHERWISE) == [] and page.evaluate(HEADLESS) == 0, tab
        asides = page.locator("aside:visible").evaluate_all("all => all.map((e) => e.ariaLabel)")
        assert len(set(asides)) == len(asides), f"{tab}: each landmark has a name of its own"
