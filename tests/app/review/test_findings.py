"""Findings by number keys, and lesion masks drawn by hand."""

from __future__ import annotations

import pytest

from core.studio.db import opening
from core.studio.review import masks
from tests.app.review.conftest import WIDGET, enter, rows, settle
from tests.studio.review.conftest import asks, mask_pixels

pytestmark = pytest.mark.long


LIST = f"{WIDGET}.review.detail.findings"


def test_number_keys_record_labelled_findings_that_stay(page, page_url, review_home):
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.goTo([...{WIDGET}.review.list.rows.keys()][7])")
    settle(page)
    case, labels = page.evaluate(f"[{WIDGET}.review.detail.id, {WIDGET}.review.setup.labels]")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.locator(".rv-view").focus()
    page.mouse.move(x, y)
    page.keyboard.press("1")  # at the pointer
    settle(page)
    page.mouse.move(5, 5)
    page.keyboard.press("2")  # the pointer is elsewhere: the whole image
    settle(page)
    page.keyboard.press("b")
    page.mouse.move(x - 30, y)
    page.mouse.down()
    page.mouse.move(x + 30, y + 10, steps=3)
    page.mouse.up()
    page.keyboard.press("3")  # what is drawn
    settle(page)
    found = page.evaluate(LIST)
    assert [f["label"] for f in found] == labels[:3]
    width, height = page.evaluate(f"[{WIDGET}.review.picture.w, {WIDGET}.review.picture.h]")
    px, py = found[0]["box"][:2]
    assert abs(px - width / 2) < 2 and abs(py - height / 2) < 2 and found[1]["box"] is None
    assert found[2]["mask_version"] and not page.evaluate(f"Boolean({WIDGET}.review.editor.mask)")
    page.reload()
    page.wait_for_function(f"{WIDGET}?.review?.picture")
    page.evaluate(f"{WIDGET}.review.goTo({case})")
    settle(page)
    listed = page.locator(".rv-findings li")
    assert listed.count() == 3 and labels[0] in listed.nth(0).inner_text() and "point" in listed.nth(0).inner_text()
    assert f"mask v{found[2]['mask_version']}" in listed.nth(2).inner_text()
    listed.nth(1).get_by_role("button", name=f"Remove {labels[1]}").click()
    settle(page)
    assert [f["label"] for f in page.evaluate(LIST)] == [labels[0], labels[2]]
    assert rows(review_home, "SELECT count(*) FROM findings WHERE case_id = ?", case) == [(2,)]


def test_zero_shows_the_image_pixel_by_pixel(page, page_url):
    enter(page, page_url)
    page.keyboard.press("0")
    assert page.evaluate(f"{WIDGET}.review.view.scale * devicePixelRatio") == 1


BLUE = """() => { const c = document.querySelector('.rv-pane canvas'); const x = c.getContext('2d');
    const r = document.querySelector('.widget-review').review; const ratio = devicePixelRatio || 1;
    const [x0, y0, x1, y1] = r.detail.findings[0].box;
    const at = (px, py) => [...x.getImageData(Math.round((px * r.view.scale + r.view.dx) * ratio),
        Math.round((py * r.view.scale + r.view.dy) * ratio), 1, 1).data];
    return [at((x0 + x1) / 2, y0), at((x0 + x1) / 2, y1), at(x0, (y0 + y1) / 2), at(x1, (y0 + y1) / 2)]; }"""


def test_a_drag_places_a_box_and_a_click_a_point(page, page_url):
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.goTo([...{WIDGET}.review.list.rows.keys()][9])")
    settle(page)
    pane = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = pane["x"] + pane["width"] / 2, pane["y"] + pane["height"] / 2
    place = page.get_by_role("button", name="Mark location", exact=True)
    page.locator(".rv-view").focus()
    page.keyboard.press("'")
    assert place.get_attribute("aria-pressed") == "true"
    page.mouse.move(x + 40, y + 30)
    page.mouse.down()
    page.mouse.move(x - 40, y - 20, steps=4)
    page.mouse.up()
    page.keyboard.press("1")
    settle(page)
    page.mouse.click(x, y)
    page.mouse.move(5, 5)  # the point stays where it was clicked
    page.keyboard.press("2")
    settle(page)
    box, point = (f["box"] for f in page.evaluate(LIST))
    scale = page.evaluate(f"{WIDGET}.review.view.scale")
    assert abs((box[2] - box[0]) * scale - 80) < 2 and abs((box[3] - box[1]) * scale - 50) < 2
    assert point[:2] == point[2:] and abs(point[0] - page.evaluate(f"{WIDGET}.review.picture.w") / 2) < 2
    listed = page.locator(".rv-findings li")
    assert "box" in listed.nth(0).inner_text() and "point" in listed.nth(1).inner_text()
    edges = page.evaluate(BLUE)
    assert all(blue > 150 and blue > red + 40 for red, _, blue, _ in edges), edges
    place.click()
    assert place.get_attribute("aria-pressed") == "false"
    for _ in range(2):
        listed.first.get_by_role("button", name="Remove").click()
        settle(page)


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
    store = opening.open(str(review_home))
    versions = masks.versions(asks(store, "reader", case_id=drawn["id"]), drawn["id"])
    assert len(versions) == before + 1 and versions[0]["source"] == "hand" and versions[0]["reader"] == "reader"
    kept = mask_pixels(store, versions[0]["id"])
    assert kept.sum() == drawn["sum"] > 300
    assert "".join(map(str, kept.ravel())) == drawn["all"]
    page.wait_for_function(f"{WIDGET}.review.maskId === {versions[0]['id']} && {WIDGET}.review.lesion")
    assert page.evaluate(f"[...{WIDGET}.review.lesion.pixels].join('')") == drawn["all"]


# Where on the page the pixel of the drawn mask lies that is set, or not, and furthest from the middle of the image.
FURTHEST = """(set) => {
  const { editor, view, panes } = WIDGET.review;
  const box = panes[0].canvas.getBoundingClientRect();
  let best = null;
  for (let y = 8; y < editor.h - 8; y += 1) for (let x = 8; x < editor.w - 8; x += 1) {
    const far = Math.hypot(x - editor.w / 2, y - editor.h / 2);
    if (editor.mask[y * editor.w + x] === set && (!best || far > best.far)) best = { x, y, far };
  }
  return [box.x + (best.x + 0.5) * view.scale + view.dx, box.y + (best.y + 0.5) * view.scale + view.dy];
}""".replace("WIDGET", WIDGET)


def test_clicks_grow_a_region_that_undo_takes_back_and_the_brush_corrects(page, page_url):
    enter(page, page_url)
    page.keyboard.press("f")
    page.keyboard.press("g")
    mask, steps = f"{WIDGET}.review.editor.mask", f"{WIDGET}.review.editor.history.length"
    pixels = f"{mask}.reduce((a, b) => a + b)"

    def click(x: float, y: float, after: int) -> int:
        page.mouse.click(x, y)
        page.wait_for_function(f"{steps} === {after}", timeout=120_000)
        return page.evaluate(pixels)

    start = page.evaluate(pixels)
    box = page.locator(".rv-pane canvas").first.bounding_box()
    first = click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, 1)
    assert first > start
    page.keyboard.down("Alt")
    outside = page.evaluate(FURTHEST, 1)
    page.evaluate(f"window.grown = {mask}.slice()")
    assert click(*outside, 2) < first, "a click outside the lesion takes away"
    assert page.evaluate(f"{mask}.every((on, i) => !on || window.grown[i])"), "and adds nothing anywhere"
    page.keyboard.up("Alt")
    page.keyboard.press("z")
    page.wait_for_function(f"{steps} === 1")
    assert page.evaluate(pixels) == first
    page.keyboard.press("b")
    corrected = click(*page.evaluate(FURTHEST, 0), 2)
    page.keyboard.press("g")
    assert click(*page.evaluate(FURTHEST, 0), 3) > corrected, "a second region, beside what was corrected"
    page.locator(".rv-editing").get_by_role("button", name="Discard").click()
    settle(page)


def test_a_click_outside_takes_away_what_was_drawn_before_the_region_grew(page, page_url):
    enter(page, page_url)
    mask, steps = f"{WIDGET}.review.editor.mask", f"{WIDGET}.review.editor.history.length"
    page.keyboard.press("f")
    page.keyboard.press("b")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # in its new place
    x, y = page.evaluate(
        f"(() => {{ const {{ view, panes }} = {WIDGET}.review, box = panes[0].canvas.getBoundingClientRect();"
        "return [box.x + view.dx + 24.5 * view.scale, box.y + view.dy + 24.5 * view.scale]; })()"
    )
    page.mouse.click(x, y)
    page.wait_for_function(f"{steps} === 1")
    at = f"{mask}[24 * {WIDGET}.review.editor.w + 24]"
    assert page.evaluate(at) == 1
    page.keyboard.press("g")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function(f"{steps} === 2", timeout=120_000)
    page.keyboard.down("Alt")
    page.mouse.click(x, y)
    page.wait_for_function(f"{steps} === 3", timeout=120_000)
    page.keyboard.up("Alt")
    assert page.evaluate(at) == 0
    page.locator(".rv-editing").get_by_role("button", name="Discard").click()
    settle(page)
