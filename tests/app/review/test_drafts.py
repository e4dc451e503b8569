"""Drawn strokes are never lost: kept by themselves, restored after a reload, shown as a draft, undone across cases."""

from __future__ import annotations

import pytest

from tests.app.conftest import arrived, routed
from tests.app.review.conftest import WIDGET, enter, rows, settle
from tests.conftest import wait

PIXELS = f"({WIDGET}.review.editor.mask?.reduce((a, b) => a + b) ?? null)"
CASE = f"{WIDGET}.review.detail.id"
KEPT = f"{WIDGET}.review.drafts.sending"


def draw(page, dy: float = 0) -> None:
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + dy
    page.mouse.move(x - 60, y)
    page.mouse.down()
    page.mouse.move(x + 40, y + 30, steps=4)
    page.mouse.up()


@pytest.fixture
def drawn(page, page_url):
    """Two strokes on the first case: its number, and how many pixels one and two strokes set."""
    enter(page, page_url)
    page.keyboard.press("b")
    draw(page)
    one = page.evaluate(PIXELS)
    draw(page, 70)
    both = page.evaluate(PIXELS)
    assert both > one > 0
    case = page.evaluate(CASE)
    yield case, one, both
    page.evaluate(f"{KEPT}")
    page.request.delete(f"{page_url}api/review/draft/{case}")


@pytest.mark.long
@pytest.mark.parametrize("key", ["ArrowRight", "n", " "])
def test_a_drawing_stays_when_the_reader_goes_on(page, page_url, drawn, key):
    case, _, both = drawn
    page.keyboard.press(key)
    settle(page)
    assert page.evaluate(CASE) != case and page.evaluate(PIXELS) is None
    assert page.locator(f".rv-row[data-id='{case}'] .rv-draft").is_visible()
    assert page.locator(".rv-drafts").inner_text().endswith("1")
    page.locator(".rv-drafts").click()
    settle(page)
    assert page.evaluate(CASE) == case and page.evaluate(PIXELS) == both
    assert page.locator(".rv-drafted").is_visible()
    if key == "n":
        page.keyboard.press("ArrowRight")
        settle(page)
        page.keyboard.press("z")  # the decision came last
        settle(page)
        assert page.evaluate(CASE) == case and page.evaluate(PIXELS) == both


@pytest.mark.long
def test_a_drawing_is_there_after_a_reload_with_its_undo(page, page_url, drawn):
    case, one, both = drawn
    page.evaluate(KEPT)
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.goTo({case})")
    settle(page)
    assert page.evaluate(PIXELS) == both
    page.keyboard.press("z")
    assert page.evaluate(PIXELS) == one
    page.keyboard.press("y")
    assert page.evaluate(PIXELS) == both


@pytest.mark.long
def test_undo_finds_the_stroke_on_the_case_where_it_was_drawn(page, page_url, drawn):
    case, one, _ = drawn
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    settle(page)
    page.keyboard.press("z")
    settle(page)
    page.wait_for_function(f"{CASE} === {case} && {PIXELS} === {one}")
    assert "stroke" in page.locator(".rv-flash").inner_text()


@pytest.mark.long
def test_four_acts_of_four_kinds_are_undone_in_their_order_and_given_back(page, page_url, review_home):
    enter(page, page_url)
    drawn, inverted = page.evaluate(CASE), f"{WIDGET}.review.show.invert"
    page.keyboard.press("b")
    draw(page)
    pixels = page.evaluate(PIXELS)
    page.keyboard.press("ArrowRight")
    settle(page)
    case = page.evaluate(CASE)
    label = page.evaluate(f"{WIDGET}.review.setup.labels[0]")

    def stored() -> list[int]:
        tables = ("reviews WHERE active = 1 AND", "findings WHERE")
        return [rows(review_home, f"SELECT count(*) FROM {table} case_id = ?", case)[0][0] for table in tables]

    none, upright = stored(), page.evaluate(inverted)
    page.keyboard.press("1")
    settle(page)
    page.keyboard.press("i")
    page.keyboard.press("u")
    settle(page)
    acts = ["Unsure", "inverted", f"finding, {label}", "a stroke"]

    def state() -> list:
        """Whether decision, display, finding and stroke are there, and what the page lists as done and as undone."""
        decision, finding = (now > before for now, before in zip(stored(), none, strict=True))
        stroke = page.evaluate(CASE) != drawn or page.evaluate(PIXELS) == pixels
        words = "all => all.map((button) => button.firstChild.data)"
        listed = [page.locator(f".rv-done .{kind} button").evaluate_all(words) for kind in ("undo", "redo")]
        return [decision, page.evaluate(inverted) != upright, finding, stroke, *listed]

    states = [[*(kind >= i for kind in range(4)), acts[i:], acts[:i]] for i in range(5)]
    assert state() == states[0]
    for after in states[1:]:
        page.keyboard.press("Control+z")
        wait(lambda after=after: state() == after)
    assert page.evaluate(CASE) == drawn, "back on the case where the stroke was"
    for after in states[3::-1]:
        page.keyboard.press("Control+Shift+Z")
        wait(lambda after=after: state() == after)
    for _ in acts:  # other tests read on in this home
        page.keyboard.press("Control+z")
    settle(page)


def kept_steps(page, url, case) -> int | None:
    """Strokes in the draft that the studio has of a case."""
    script = """async (path) => {
      const answer = await fetch(path);
      if (!answer.ok) return null;
      const whole = answer.body.pipeThrough(new DecompressionStream('gzip'));
      const raw = new Uint8Array(await new Response(whole).arrayBuffer());
      const length = new DataView(raw.buffer).getUint32(0, true);
      return JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + length))).history.length;
    }"""
    return page.evaluate(script, f"{url}api/review/draft/{case}")


@pytest.mark.long
def test_a_stroke_after_an_undo_is_kept_though_the_removal_is_slow(page, page_url):
    enter(page, page_url)
    case = page.evaluate(CASE)
    held = []
    routed(page, "**/api/review/draft/*", lambda r: held.append(r) if r.request.method == "DELETE" else r.continue_())
    page.keyboard.press("b")
    draw(page)
    page.evaluate(KEPT)
    page.keyboard.press("z")  # the drawing is empty: its draft is removed
    arrived(page, held)
    draw(page)
    draw(page, 70)
    page.wait_for_timeout(300)  # what comes too early would have come by now
    for route in held:
        route.continue_()
    page.unroute("**/api/review/draft/*")
    page.evaluate(KEPT)
    page.wait_for_load_state("networkidle")
    assert kept_steps(page, page_url, case) == 2 == page.evaluate(f"{WIDGET}.review.editor.history.length")
    page.request.delete(f"{page_url}api/review/draft/{case}")


@pytest.mark.long
def test_a_stroke_that_the_studio_has_not_answered_is_there_after_a_reload(page, page_url, drawn):
    case, _, _ = drawn
    page.evaluate(KEPT)
    held, hold = [], True
    routed(page, "**/api/review/draft/*", lambda route: held.append(route) if hold else route.continue_())
    draw(page, -70)
    three = page.evaluate(PIXELS)
    arrived(page, held)
    hold = False
    enter(page, page_url)  # what was on its way is lost
    page.evaluate(f"{WIDGET}.review.goTo({case})")
    settle(page)
    assert page.evaluate(PIXELS) == three
    assert kept_steps(page, page_url, case) == 3
    assert page.evaluate("localStorage.getItem('pmsacl.drafts')") == "{}"


def test_a_stroke_that_is_not_let_go_of_ends_with_its_image(page, page_url, drawn):
    case, _, both = drawn
    box = page.locator(".rv-pane canvas").first.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 180, steps=3)
    page.keyboard.press("ArrowRight")
    settle(page)
    page.keyboard.press("ArrowLeft")
    settle(page)
    page.mouse.up()
    assert page.evaluate(CASE) == case and page.evaluate(f"{WIDGET}.review.editor.history.length") == 2
    assert page.evaluate(PIXELS) == both


@pytest.mark.long
def test_a_saved_drawing_is_no_draft_any_more(page, page_url, drawn, review_home):
    case, _, both = drawn
    page.keyboard.press("s")
    settle(page)
    page.wait_for_function(f"!{WIDGET}.review.drafts.cases.size")
    assert rows(review_home, "SELECT 1 FROM mask_drafts WHERE case_id = ?", case) == []
    assert page.locator(".rv-drafted").is_hidden() and not page.locator(".rv-drafts").count()
    assert page.evaluate(f"{WIDGET}.review.lesion.pixels.reduce((a, b) => a + b)") == both
