"""Maps are asked for on the page, made by a worker, and leave as figures and tables."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.app.clusters.conftest import LOADED, PAINTED
from tests.app.conftest import routed


@pytest.mark.long
def test_a_map_is_asked_for_on_the_page_and_made_by_a_worker(maps, mapped):
    page = maps.page
    page.get_by_label("Method", exact=True).select_option("pca")
    page.get_by_label("Features", exact=True).select_option("backbone")
    page.get_by_text("Settings", exact=True).click()
    for label, value in (("Normals, each split", "10"), ("Abnormal", "10"), ("MedMix, each Aₙ", "5")):
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
    maps.get("(view.panes[0].blank(), view.emptiness())")
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
    page.get_by_label("Normals, each split", exact=True).fill("9")  # no map has these
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
