"""The timeline below a recording or a volume."""

import pytest

from tests.app.review.conftest import WIDGET, enter, rows, settle

pytestmark = pytest.mark.long


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
