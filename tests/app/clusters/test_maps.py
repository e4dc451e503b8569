"""Maps are asked for on the page, made by a worker, and leave as figures and tables."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.studio.clusters import explore, library, projected
from tests.app.clusters.conftest import LOADED, PAINTED, click_shows
from tests.app.conftest import routed
from tests.studio.clusters.conftest import frames


@pytest.mark.long
def test_a_map_is_asked_for_on_the_page_and_made_by_a_worker(maps, mapped):
    page = maps.page
    page.get_by_label("Method", exact=True).select_option("pca")
    page.get_by_label("Features", exact=True).select_option("backbone")
    page.get_by_text("Settings", exact=True).click()
    for label, value in (("Normals per split", "10"), ("Abnormal", "10"), ("MedMix per Aₙ", "5")):
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_role("button", name="Draw map").click()
    page.wait_for_function(
        "document.querySelector('.widget-clusters').scatter.panes[0].map.about.config.feature === 'backbone'",
        timeout=120_000,
    )
    job = mapped[1].one("SELECT * FROM jobs ORDER BY id DESC")
    assert job["step"] == "embed" and job["status"] in ("running", "done")
    assert maps.get("view.panes[0].map.n") < 60
    assert threading.active_count() < 50  # nothing was fitted here


def test_a_map_that_came_by_itself_opens_where_none_is_open(maps):
    """As a first look draws one: nobody asked for it here."""
    maps.get("view.panes[0].blank()")
    maps.page.get_by_role("heading", name="No map yet").wait_for()
    maps.page.evaluate("window.Studio.emit('status', { studies: [], reading: {}, runs: {}, drafts: {}, arrived: {} })")
    maps.page.wait_for_function(LOADED)
    assert maps.page.locator(".scatter-room .nothing").is_hidden()


def test_where_the_study_may_not_be_seen_it_is_said_why(maps):
    """As in a blind session: no map stays, and nothing is said to be missing."""
    page = maps.page
    refusal = "Your blind session is open: until it has ended, only Review is open to you."
    routed(page, "**/api/clusters/*", lambda route: route.fulfill(status=403, json={"ok": False, "error": refusal}))
    page.evaluate("window.Studio.emit('tab', 'clusters')")
    page.locator(".scatter-room .nothing").get_by_text(refusal).wait_for()
    page.get_by_role("heading", name="No map is shown").wait_for()
    page.unroute("**/api/clusters/*")
    page.evaluate("window.Studio.emit('tab', 'clusters')")
    page.wait_for_function(LOADED)


@pytest.mark.long
def test_a_map_that_is_asked_for_is_stopped(maps, mapped):
    page = maps.page
    before = maps.get("view.panes[0].map.key")
    page.get_by_label("Method", exact=True).select_option("tsne")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("Normals per split", exact=True).fill("9")  # no map has these
    page.get_by_role("button", name="Draw map").click()
    page.locator(".scatter-room .working").get_by_role("button", name="Stop").click()
    page.locator(".scatter-room .working").wait_for(state="hidden")
    assert page.get_by_role("button", name="Draw map").is_enabled()
    assert mapped[1].one("SELECT status FROM jobs ORDER BY id DESC")["status"] in ("cancelled", "cancelling")
    assert maps.get("view.panes[0].map.key") == before, "the map that was there stays"


def test_figures_and_tables_are_downloaded(maps):
    page = maps.page
    for group, start in (("SVG", b"<?xml"), ("CSV", b"epoch,point,x,y,case_id")):
        page.locator(".menu.out summary").click()
        with page.expect_download() as caught:
            page.locator(".menu.out a", has_text=group).first.click()
        assert Path(caught.value.path()).read_bytes().startswith(start)


def test_nothing_is_said_to_be_missing_while_it_is_looked_for(page, mapped, go):
    """The list of encoders comes late: until then there is neither "No encoder yet" nor "No map yet"."""
    page.add_init_script(
        """window.said = [];
        new MutationObserver(() => {
          const n = document.querySelector('.scatter-room .nothing');
          if (n && !n.hidden && n.innerText.trim()) window.said.push(n.innerText);
        }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['hidden'] });"""
    )

    def late(route):
        time.sleep(1)
        route.continue_()

    page.route("**/api/clusters/runs?*", late)
    go(page, mapped[0].url, "Clusters")
    page.wait_for_function(LOADED, timeout=60_000)
    page.evaluate(PAINTED)
    assert page.evaluate("window.said") == []


def test_no_control_of_the_form_cuts_its_words(maps):
    """Every choice of method, epochs and features fits its box at 1366 x 768, and the bar is one line."""
    cut = maps.page.evaluate(
        """() => [...document.querySelectorAll('.draw .method, .draw .epochs, .draw .feature')].flatMap((s) => {
          const style = getComputedStyle(s), ink = document.createElement('canvas').getContext('2d');
          ink.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
          const room = s.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
          return [...s.options].filter((o) => ink.measureText(o.text).width > room).map((o) => o.text);
        })"""
    )
    assert cut == []
    tops = {round(b.bounding_box()["y"]) for b in maps.page.locator(".bar > button").all()}
    assert len(tops) == 1


def test_of_pretrained_weights_only_the_backbone_can_be_drawn(page, mapped, go):
    """They come without class centres and with a head that nothing has trained: what cannot be drawn is not offered."""

    def pretrained(route):
        answer = route.fetch()
        found = answer.json()
        found["runs"].append({**found["runs"][0], "id": "pretrained", "name": "ImageNet", "centred": False})
        route.fulfill(response=answer, json=found)

    page.route("**/api/clusters/runs?*", pretrained)
    go(page, mapped[0].url, "Clusters")
    page.wait_for_function(LOADED, timeout=60_000)
    features = page.get_by_label("Features", exact=True)
    assert features.input_value() == "centred"
    page.get_by_label("Encoder", exact=True).select_option("pretrained")
    assert features.input_value() == "backbone"
    off = "s => [...s.options].filter((o) => o.disabled).map((o) => o.value)"
    assert features.evaluate(off) == ["centred", "projected"]
    page.get_by_label("Encoder", exact=True).select_option(index=0)
    assert features.input_value() == "centred" and features.evaluate(off) == []


def test_numbers_of_the_epoch_are_shown_with_a_warning_if_they_disagree_with_the_map(maps, mapped):
    page, about = maps.page, library.open_map(mapped[1], mapped[3][1]).about
    row = page.locator(".numbers tr", has_text="Silhouette")
    assert len(row.locator("polyline").get_attribute("points").split()) == 3
    warned = 0
    for e in (0, 1, 2):
        page.evaluate(f"document.querySelector('.widget-clusters').scatter.panes[0].seek({e})")
        page.locator(".pane[data-pane='0'] .epoch").filter(has_text=f"epoch {e}").wait_for()
        numbers = about["epochs"][e]["numbers"]["classes"]
        row.locator("td").first.filter(has_text=f"{numbers['silhouette']:.2f}").wait_for()
        warnings = numbers["warnings"]
        assert page.locator(".numbers .warning").all_inner_texts() == warnings
        warned += len(warnings)
    assert warned > 0  # a map of an untrained encoder is warned of at least once


@pytest.mark.long
def test_a_click_gives_the_right_image_after_filter_isolate_and_epoch_change(maps, mapped):
    page = maps.page
    click_shows(maps, maps.alone())
    page.get_by_role("button", name="Hide Normal, training").click()
    i = maps.alone()
    assert maps.get("view.panes[0].column.names[view.panes[0].column.codes[a]]", i) != "Normal, training"
    click_shows(maps, i)
    maps.enclose("Lasso", 0.6)
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


@pytest.mark.parametrize("tool", ["Lasso", "Box"])
def test_lasso_and_box_take_visible_points_only(maps, tool):
    page = maps.page
    assert maps.pixels("Abnormal, test") > 0
    page.get_by_role("button", name="Hide Abnormal, test").click()
    assert maps.pixels("Abnormal, test") == 0
    maps.enclose(tool)
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
    maps.enclose("Lasso", 0.5)
    ids = "view.pointsOf(view.panes[{0}]).map((i) => view.panes[{0}].map.ids[i]).sort()"
    here, there = maps.get(ids.format(0)), maps.get(ids.format(1))
    placed = set(maps.get("Array.from(view.panes[1].map.ids)"))  # the newest map, which may be of a part of the images
    assert [i for i in here if i in placed] == there and len(there) > 0
    assert len(here) < maps.get("view.panes[0].map.n")


@pytest.mark.long
def test_a_tag_and_a_view_survive_a_reload(maps, mapped, go):
    page, store = maps.page, mapped[1]
    maps.enclose("Lasso")
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
    page.get_by_text("does not exist").wait_for()
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
    maps.enclose("Box")
    assert maps.selected() == list(range(own, own + 5))
    page.get_by_role("button", name="Add to worklist", exact=True).click()
    page.get_by_text("not cases of its study").wait_for()
    page.locator(".menu.place summary").click()
    page.get_by_role("button", name="Remove ward 3 from the map").click()
    page.wait_for_function(
        "(n) => document.querySelector('.widget-clusters').scatter.panes[0].map.n === n", arg=own, timeout=60_000
    )
    assert projected.list_projected(store, keys[1]) == []
