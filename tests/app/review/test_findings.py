"""Findings by number keys: at the pointer, with the drawn mask, on the whole image; still there after a reload."""

import pytest

from tests.app.review.conftest import WIDGET, enter, rows, settle

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
