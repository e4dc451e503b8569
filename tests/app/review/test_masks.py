"""Lesion masks drawn by hand."""

from __future__ import annotations

from core.studio.db import store as stores
from core.studio.review import masks
from tests.app.review.conftest import WIDGET, enter, settle


def test_a_drawn_mask_is_saved_as_a_version_pixel_for_pixel(page, page_url, review_home):
    enter(page, page_url)
    before = page.evaluate(f"{WIDGET}.review.detail.masks.length")
    page.keyboard.press("b")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 60, y)
    page.mouse.down()
    page.mouse.move(x + 40, y + 30, steps=5)
    page.mouse.up()
    page.mouse.move(x, y - 80)
    page.mouse.down()
    page.mouse.up()
    page.keyboard.press("z")  # the dot goes, the stroke stays
    page.keyboard.press("p")
    for dx, dy in ((80, 40), (140, 40), (110, 110)):
        page.mouse.click(x + dx, y + dy)
    page.keyboard.press("Enter")
    drawn = page.evaluate(
        f"""(() => {{ const r = {WIDGET}.review, m = r.editor.mask;
        return {{ id: r.detail.id, sum: m.reduce((a, b) => a + b), all: [...m].join('') }} }})()"""
    )
    page.keyboard.press("s")
    settle(page)
    store = stores.open(str(review_home))
    versions = masks.versions(store, drawn["id"])
    assert len(versions) == before + 1 and versions[0]["source"] == "hand" and versions[0]["reader"] == "reader"
    kept = masks.pixels(store, versions[0]["id"])
    assert kept.sum() == drawn["sum"] > 300
    assert "".join(map(str, kept.ravel())) == drawn["all"]
    page.wait_for_function(f"{WIDGET}.review.maskId === {versions[0]['id']} && {WIDGET}.review.lesion")
    assert page.evaluate(f"[...{WIDGET}.review.lesion.pixels].join('')") == drawn["all"]


def test_clicks_grow_a_region_that_undo_takes_back_and_the_brush_corrects(page, page_url, review_home):
    enter(page, page_url)
    page.wait_for_function(f"{WIDGET}.review.heat")
    page.keyboard.press("g")
    pixels = f"{WIDGET}.review.editor.mask.reduce((a, b) => a + b)"
    steps = f"{WIDGET}.review.editor.history.length"
    start = page.evaluate(pixels)
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    page.wait_for_function(f"{steps} === 1", timeout=60_000)
    first = page.evaluate(pixels)
    assert first > start
    page.keyboard.down("Alt")
    page.mouse.click(x + 30, y + 20)  # outside
    page.keyboard.up("Alt")
    page.wait_for_function(f"{steps} === 2", timeout=60_000)
    at = f"{box['width'] / 2 + 30}, {box['height'] / 2 + 20}"
    there = f"""(() => {{ const r = {WIDGET}.review, p = r.view.toImage({at});
        return r.editor.mask[Math.floor(p.y) * r.editor.w + Math.floor(p.x)]; }})()"""
    assert page.evaluate(there) == 0
    page.keyboard.press("z")
    page.wait_for_function(f"{steps} === 1")
    assert page.evaluate(pixels) == first
    page.keyboard.press("b")
    page.mouse.click(x - 60, y - 40)
    page.wait_for_function(f"{steps} === 2 && {WIDGET}.review.drafts.cases.size")
    corrected = page.evaluate(pixels)
    page.keyboard.press("g")
    page.mouse.click(x + 70, y + 50)  # a second region, beside what was corrected
    page.wait_for_function(f"{steps} === 3", timeout=60_000)
    assert page.evaluate(pixels) > corrected
    page.evaluate(
        "[...document.querySelectorAll('.rv-editing button')].find((b) => b.textContent === 'Discard').click()"
    )
