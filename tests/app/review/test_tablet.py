"""The Review tab on a tablet, by touch."""

import pytest

from tests.app.review.conftest import WIDGET, enter, settle


@pytest.mark.long
@pytest.mark.parametrize("size", [(1024, 768), (820, 1180)])
def test_on_a_tablet_nothing_is_cut_and_fingers_pinch(browser, page_url, size):
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, has_touch=True)
    page = context.new_page()
    enter(page, page_url)
    settle(page)
    page.evaluate("document.fonts.ready.then(() => new Promise((drawn) => requestAnimationFrame(drawn)))")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in (".rv-rows", ".rv-view", ".rv-decide", ".rv-say.abnormal", ".rv-threshold", ".rv-top"):
        box = page.locator(name).first.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] + 1 and box["width"] > 60, name
    view = page.locator(".rv-view").bounding_box()
    assert view["width"] * view["height"] > 0.2 * size[0] * size[1]
    assert page.locator(".rv-say.normal").bounding_box()["height"] >= 44
    inside = page.evaluate(
        "[...document.querySelectorAll('.rv-decide > *, .rv-top > *')].every((e) => {"
        "const b = e.getBoundingClientRect(); return !b.width || b.right <= innerWidth + 1 })"
    )
    assert inside
    before = page.evaluate(f"{WIDGET}.review.view.scale")
    page.evaluate(
        """() => { const c = document.querySelector('.rv-pane canvas'), b = c.getBoundingClientRect();
        c.setPointerCapture = () => null;
        const go = (type, id, dx) => c.dispatchEvent(new PointerEvent(type, { pointerId: id, pointerType: 'touch',
          isPrimary: id === 1, clientX: b.x + b.width / 2 + dx, clientY: b.y + b.height / 2, bubbles: true }));
        go('pointerdown', 1, -30); go('pointerdown', 2, 30); go('pointermove', 2, 60); go('pointermove', 1, -60);
        go('pointerup', 1, -60); go('pointerup', 2, 60) }"""
    )
    assert page.evaluate(f"{WIDGET}.review.view.scale") > 1.5 * before
    page.locator(".rv-say.normal").tap()
    settle(page)
    context.close()
