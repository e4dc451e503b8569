"""Points are who they say: a click shows the right image, neighbours are the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.studio.clusters import explore, library
from tests.app.clusters.conftest import click_shows


@pytest.mark.long
def test_a_click_gives_the_right_image_after_filter_isolate_and_epoch_change(maps, mapped):
    page = maps.page
    click_shows(maps, maps.alone())
    page.get_by_role("button", name="Hide Normal, training").click()
    i = maps.alone()
    assert maps.get("view.panes[0].column.names[view.panes[0].column.codes[a]]", i) != "Normal, training"
    click_shows(maps, i)
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    maps.lasso(box["x"] + 3, box["y"] + 3, box["x"] + box["width"] * 0.6, box["y"] + box["height"] - 3)
    chosen = set(maps.selected())
    page.get_by_role("button", name="Isolate").click()
    page.get_by_role("button", name="Move", exact=True).click()
    assert set(maps.get("[...view.panes[0].plot.visible].flatMap((v, i) => v ? [i] : [])")) == chosen
    click_shows(maps, maps.alone())
    page.keyboard.press("Escape")
    maps.get("view.panes[0].seek(0)")
    assert page.locator(".pane[data-pane='0'] .epoch").inner_text() == "epoch 0"
    click_shows(maps, maps.alone())


def test_neighbours_on_the_page_equal_brute_force(maps, mapped):
    _, store, _, keys = mapped
    i = maps.alone()
    maps.page.mouse.click(*maps.place(i))
    maps.page.locator(".near .thumb").nth(9).wait_for()
    shown = [int(b.get_attribute("data-point")) for b in maps.page.locator(".near .thumb").all()]
    m = library.open_map(store, keys[1])
    x = np.asarray(explore.features(store, m), np.float64)
    assert shown == NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x).kneighbors()[1][i].tolist()
