"""Lasso and box take what is visible; a selection is shared by two maps, tagged, and kept as a view."""

from __future__ import annotations

import pytest

from tests.app.clusters.conftest import LOADED, PAINTED


@pytest.mark.parametrize("tool", ["lasso", "box"])
def test_lasso_and_box_take_visible_points_only(maps, tool):
    page = maps.page
    assert maps.pixels("Abnormal, test") > 0
    page.get_by_role("button", name="Hide Abnormal, test").click()
    assert maps.pixels("Abnormal, test") == 0
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    getattr(maps, tool)(box["x"] + 3, box["y"] + 3, box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
    names = maps.get(
        "view.pointsOf(view.panes[0]).map((i) => view.panes[0].column.names[view.panes[0].column.codes[i]])"
    )
    everything = maps.get("view.panes[0].map.n")
    hidden = maps.get("view.panes[0].plot.colouring.counts[view.panes[0].column.names.indexOf('Abnormal, test')]")
    assert "Abnormal, test" not in names and len(names) == everything - hidden and hidden > 0
    assert page.locator(".detail h2").inner_text() == f"{len(names)} selected"


def test_two_maps_share_one_selection_by_identity(maps):
    page = maps.page
    page.get_by_role("button", name="Two maps").click()
    page.wait_for_function("document.querySelector('.widget-clusters').scatter.panes[1].map")
    page.evaluate(PAINTED)
    assert maps.get("view.panes[0].map.key !== view.panes[1].map.key")
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    maps.lasso(box["x"] + 3, box["y"] + 3, box["x"] + box["width"] / 2, box["y"] + box["height"] - 3)
    ids = "view.pointsOf(view.panes[{0}]).map((i) => view.panes[{0}].map.ids[i]).sort()"
    here, there = maps.get(ids.format(0)), maps.get(ids.format(1))
    placed = set(maps.get("Array.from(view.panes[1].map.ids)"))  # the newest map, which may be of a part of the images
    assert [i for i in here if i in placed] == there and len(there) > 0
    assert len(here) < maps.get("view.panes[0].map.n")


@pytest.mark.long
def test_a_tag_and_a_view_survive_a_reload(maps, mapped, go):
    page, store = maps.page, mapped[1]
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    maps.lasso(box["x"] + 3, box["y"] + 3, box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
    page.get_by_label("Tag", exact=True).fill("looked at")
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_text("cases tagged").wait_for()
    assert store.one("SELECT count(*) AS n FROM cases WHERE tags LIKE '%looked at%'")["n"] > 10
    page.locator(".menu.views summary").click()
    page.get_by_label("Name of this view").fill("all of it")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(".toast", has_text="saved.").wait_for()
    count = len(maps.selected())
    go(page, mapped[0].url, "Clusters")
    page.wait_for_function(LOADED, timeout=60_000)
    assert maps.selected() == []
    page.locator(".menu.views summary").click()
    page.get_by_role("button", name="all of it", exact=True).click()
    page.get_by_text(f"{count} selected").wait_for()
