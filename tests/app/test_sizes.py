"""At the sizes of a laptop and of an upright tablet nothing is cut or squeezed; the whole page has one look."""

from __future__ import annotations

import os

import pytest

from core.studio.db import journal, opening
from core.studio.runs import records as runs
from core.studio.runs.results import evaluate_run
from tests.app.conftest import STUDY, Served, manage
from tests.conftest import wait
from tests.studio.review.conftest import add_readings

pytestmark = pytest.mark.long


TABS = ("Study", "MedMix", "Training", "Clusters", "Review", "Results", "Trials", "Report")
# What reaches over the window's right edge and cannot be scrolled to, or over the edge of a box that hides it.
CUT = """() => {
  const out = [];
  const moves = (e) => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  for (const e of document.querySelectorAll('.widget :is(button, input, select, th, td, h2, p, canvas, .block)')) {
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || !e.checkVisibility({ visibilityProperty: true })) continue;
    let above = e.parentElement;
    while (above && !moves(above)) above = above.parentElement;
    if (!above && box.right > innerWidth + 1)
      out.push(`${e.tagName}.${e.className} ${Math.round(box.right)}: ${e.innerText?.slice(0, 40)}`);
  }
  return out;
}"""
# What reaches over the edge of what hides it, or of its own panel or chart, without being scrolled to.
OVER = """() => {
  const out = [];
  const moves = (s) => [s.overflowX, s.overflowY].some((o) => ['auto', 'scroll'].includes(o));
  const words = '.widget :is(button, input, select, th, td, h2, h3, p, label, .legend span), #brand :is(b, span)';
  for (const e of document.querySelectorAll(words)) {
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || !e.checkVisibility({ visibilityProperty: true })) continue;
    for (let a = e.parentElement; a && a !== document.body; a = a.parentElement) {
      const style = getComputedStyle(a);
      if (moves(style)) break;
      const hides = [style.overflowX, style.overflowY].some((o) => o !== 'visible');
      if (style.textOverflow === 'ellipsis' || (!hides && !a.matches('.panel, .chart, .block, #brand'))) continue;
      const { left, right, top, bottom } = a.getBoundingClientRect();
      if (box.left < left - 2 || box.right > right + 2 || box.top < top - 2 || box.bottom > bottom + 2)
        out.push(`${e.tagName}.${e.className} of ${a.tagName}.${a.className}: ${e.innerText?.slice(0, 40)}`);
    }
  }
  return out;
}"""
# How much of each detector's check box is in sight.
SEEN = """() => {
  const list = document.querySelector('.training-room .detectors').getBoundingClientRect();
  return [...document.querySelectorAll('.training-room .detectors input')].map((input) => {
    const { top, bottom } = input.getBoundingClientRect();
    return Math.max(0, Math.min(bottom, list.bottom) - Math.max(top, list.top)) / (bottom - top);
  });
}"""


@pytest.fixture(scope="module")
def sized(own_home):
    """A server on a copy of the small home, with a training, an encoder, and a fit that was scored and evaluated."""
    home = own_home("sizes")
    store = opening.open(str(home))
    encoder = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32})
    fit = add_readings(store, STUDY, "padim")
    store.execute("UPDATE runs SET parent = ? WHERE id = ?", [encoder, fit])
    runs.update_run(store, encoder, status="done")
    curves = ("loss", "l_ctr", "l_con", "l_con_constant", "l_aug", "val_loss", "aug_accuracy", "val_accuracy", "spread")
    curves += ("class_distance", *(f"centre_distance_{n}" for n in range(4)))
    curved = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32})
    runs.update_run(store, curved, status="done")
    journal.write_metrics(store, curved, [(step, name, 1.234) for step in range(1, 20) for name in curves])
    evaluate_run(store, fit, True, bootstrap=0)
    store.close()
    server = Served(home)
    yield server
    server.stop()


@pytest.fixture
def page_url(sized) -> str:
    return sized.url


# The last is a laptop at 200 %.
@pytest.mark.parametrize("size", [(1366, 768), (800, 1100), (683, 384)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_nothing_is_cut_at(page, page_url, go, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for tab in TABS:
        go(page, page_url, tab)
        page.wait_for_load_state("networkidle")
        assert page.evaluate(CUT) == page.evaluate(OVER) == [], tab
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab
        if tab == "Training" and size[1] > 384:
            assert set(page.evaluate(SEEN)) <= {0, 1}, "no row of check boxes is cut through"
        if tab == "Review" and size[1] > 384:
            of = page.get_by_role("group", name="Detector").get_by_role("button")
            assert of.evaluate("b => getComputedStyle(b).borderRadius") == "5px", "one button alone is round all over"


def test_on_an_upright_tablet_figures_and_reports_keep_their_measure(page, page_url, go):
    page.set_viewport_size({"width": 800, "height": 1100})
    go(page, page_url, "Training")
    page.locator(".training-room .runs tr.child").wait_for()
    rows = page.locator(".training-room .runs .list")
    assert rows.evaluate("e => e.scrollWidth <= e.clientWidth"), "each run's figures are in sight"
    go(page, page_url, "Study")
    page.locator(".study-main .report :text('Every file could be read')").wait_for()
    assert page.locator(".study-main .report").bounding_box()["width"] > 300
    go(page, page_url, "Results")
    word = page.locator(".rs-page svg text", has_text="1 − specificity")
    word.wait_for()
    # The room is drawn again when what is measured later comes: a drawing may have gone between two questions.
    box = wait(word.bounding_box)
    assert box["height"] < 20, "a drawing is not blown up to the page's width"
    go(page, page_url, "Clusters")
    assert page.locator(".scatter-room > .room-main").bounding_box()["width"] > 500, "the map has the width"


def test_on_a_laptop_all_keys_are_in_sight_at_once(page, page_url, go):
    go(page, page_url, "Review")
    page.wait_for_function("document.querySelector('.widget-review')?.review?.picture")
    page.keyboard.press("?")
    close = page.locator("dialog.rv-help").get_by_role("button", name="Close")
    close.wait_for()
    box = close.bounding_box()
    assert box["y"] + box["height"] < 768


SENTENCE = "The map was drawn of 240 images; 3 of them could not be read and were left out of it."
SAY = """async (sentence) => {
  const { toast } = await import('/page/static/dialogs.js');
  for (let n = 1; n < 5; n += 1) { // marks set one after the other
    toast(`Saved as version ${n} (22501 pixels).`, 'good');
    toast('Fully annotated: everything unmarked counts as normal.', 'good');
  }
  toast(sentence, 'bad');
}"""
COVERED = """() => {
  const notes = [...document.querySelectorAll('.toast')].map((e) => e.getBoundingClientRect());
  const things = document.querySelectorAll('button, input, select, h2, canvas, svg, img, .panel');
  return [...things].filter((e) => {
    const b = e.getBoundingClientRect();
    return b.width && e.checkVisibility({ visibilityProperty: true }) && notes.some((n) =>
      n.left < b.right && b.left < n.right && n.top < b.bottom && b.top < n.bottom);
  }).map((e) => `${e.tagName}.${e.className}`);
}"""


@pytest.mark.parametrize("size", [(1366, 768), (800, 1100)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_what_the_page_says_covers_nothing(page, page_url, go, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for tab in TABS:
        go(page, page_url, tab)
        page.wait_for_load_state("networkidle")
        page.evaluate(SAY, SENTENCE)
        page.locator(".toast.bad").wait_for()
        assert page.evaluate(COVERED) == [], tab
        if folder := os.environ.get("PMSACL_PICTURES"):
            page.screenshot(path=f"{folder}/toast-{size[0]}-{tab}.png")


def test_tabs_that_a_narrow_window_keeps_in_a_menu_open_like_the_others(page, page_url, go):
    go(page, page_url, "Study")
    page.set_viewport_size({"width": 560, "height": 600})
    page.wait_for_function("!document.querySelector('#tab-report-button')")  # it stands in the menu
    page.evaluate("window.Studio.openTab('report')")
    page.get_by_role("heading", name="Tables of the paper on this study").wait_for()
    assert page.evaluate("[window.Studio.tab, new URL(location.href).searchParams.get('tab')]") == ["report", "report"]
    page.get_by_role("button", name="More tabs").click()
    page.locator("#rooms .overflow-dropdown").get_by_role("button", name="Results").click()
    page.wait_for_function("window.Studio.tab === 'results' && location.href.includes('tab=results')")
    page.locator(".rs-page .rs-head").first.wait_for()  # it was asked for


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
