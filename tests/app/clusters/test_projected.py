"""New images placed on a map that is drawn already."""

from __future__ import annotations

import pytest

from core.studio.clusters import projected
from tests.studio.clusters.conftest import frames


@pytest.mark.long
def test_new_images_are_placed_on_the_map_and_taken_off_again(maps, mapped, tmp_path):
    """By a worker, from a folder: own points stay where they are, a click shows the new image and its nearest."""
    page, store, keys = maps.page, mapped[1], mapped[3]
    frames(tmp_path / "ward 3", 5, True, 70)
    before = maps.get("Array.from(view.panes[0].map.coords)")
    own = maps.get("view.panes[0].map.n")
    page.locator(".menu.place summary").click()
    page.locator(".place-folder").fill(str(tmp_path / "nowhere"))
    page.get_by_role("button", name="Place", exact=True).click()
    page.get_by_text("there is no folder").wait_for()
    page.locator(".place-folder").fill(str(tmp_path / "ward 3"))
    page.get_by_role("button", name="Place", exact=True).click()
    page.wait_for_function(
        "(n) => document.querySelector('.widget-clusters').scatter.panes[0].map.n === n + 5", arg=own, timeout=180_000
    )
    after = maps.get("Array.from(view.panes[0].map.coords)")
    for e in range(3):
        assert after[2 * e * (own + 5) : 2 * e * (own + 5) + 2 * own] == before[2 * e * own : 2 * (e + 1) * own]
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Only Placed: ward 3").click()
    i = maps.alone()
    assert i >= own and maps.painted(i)
    page.mouse.click(*maps.place(i))
    page.locator(f".detail .image[data-point='{i}']").wait_for()
    row = store.one("SELECT key FROM cluster_projected WHERE map = ?", [keys[1]])
    new = projected.open_projected(store, keys[1], row["key"])
    assert page.locator(".detail h2").inner_text() == new.about["names"][i - own]
    page.locator(".near .thumb").nth(9).wait_for()
    shown = [int(b.get_attribute("data-point")) for b in page.locator(".near .thumb").all()]
    assert shown == new.near[-1, i - own].tolist()
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    maps.box(box["x"] + 3, box["y"] + 3, box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
    assert maps.selected() == list(range(own, own + 5))
    page.get_by_role("button", name="To worklist", exact=True).click()
    page.get_by_text("not cases of its study").wait_for()
    page.locator(".menu.place summary").click()
    page.get_by_role("button", name="Remove ward 3 from the map").click()
    page.wait_for_function(
        "(n) => document.querySelector('.widget-clusters').scatter.panes[0].map.n === n", arg=own, timeout=60_000
    )
    assert projected.list_projected(store, keys[1]) == []
