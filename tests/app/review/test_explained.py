"""What the most abnormal patch is most like, beside the nearest normal image."""

from pathlib import Path

import pytest

from core.studio.db import opening
from tests.app.review.conftest import STUDY, WIDGET, enter


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
