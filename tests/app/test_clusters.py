"""The Clusters tab in a real browser: points are who they say, lasso takes what is visible, maps are linked."""

import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.studio.clusters import explore, library, projected
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.db import store as stores
from core.studio.jobs.steps import STEPS, Work
from core.studio.runs import records as runs
from tests.app.conftest import STUDY, Served
from tests.studio.clusters.conftest import frames, snapshots

POINTS = PointsConfig(train=20, holdout=20, mixed=10, test_normal=10, abnormal=10)


@pytest.fixture(scope="module")
def mapped(small_home, tmp_path_factory):
    """A copy of the small study's home with an encoder of three epochs and two maps: PCA of all, t-SNE of the last."""
    home = tmp_path_factory.mktemp("clusters") / "home"
    shutil.copytree(small_home, home)
    store = stores.open(str(home))
    config = {"size": 32, "k": 3, "strong": "medmix", "medmix": {}}
    run = runs.create_run(store, STUDY, "pretrain", "pmsacl", config)
    snapshots(runs.run_folder(store, run), 3)
    runs.update_run(store, run, status="done")
    keys = []
    for config in (
        MapConfig(method="tsne", iterations=250, points=POINTS),
        MapConfig(method="pca", epochs=(0, 1, 2), points=POINTS),
    ):
        keys.append(STEPS["embed"](Work(store, run, {"config": config.to_dict(), "device": "cpu"})))
    server = Served(home)
    yield server, store, run, keys
    server.stop()


class Maps:
    """The widget as a test sees it."""

    def __init__(self, page):
        self.page = page

    def get(self, expression: str, argument=None):
        code = f"(a) => {{ const view = document.querySelector('.widget-clusters').scatter; return {expression}; }}"
        return self.page.evaluate(code, argument)

    def place(self, i: int, pane: int = 0) -> tuple[float, float]:
        x, y, left, top = self.get(
            f"(() => {{ const p = view.panes[{pane}].plot; const s = p.screen(a), b = p.over.getBoundingClientRect();"
            " return [s.x, s.y, b.left, b.top]; })()",
            i,
        )
        return left + x, top + y

    def alone(self, pane: int = 0) -> int:
        """A visible point with no other near it on the screen, so that a click can only mean this one."""
        return self.get(
            f"""(() => {{
              const p = view.panes[{pane}].plot, n = view.panes[{pane}].map.n;
              const at = Array.from({{length: n}}, (_, i) => p.screen(i));
              const apart = (i, j) => Math.hypot(at[i].x - at[j].x, at[i].y - at[j].y);
              let best = -1, far = 0;
              for (let i = 0; i < n; i++) {{
                if (!p.visible[i]) continue;
                let d = 1e9;
                for (let j = 0; j < n; j++) if (j !== i && p.visible[j]) d = Math.min(d, apart(i, j));
                if (d > far) {{ far = d; best = i; }}
              }}
              return best;
            }})()"""
        )

    def lasso(self, x0, y0, x1, y1) -> None:
        self.page.get_by_role("button", name="Lasso", exact=True).click()
        self.page.mouse.move(x0, y0)
        self.page.mouse.down()
        for x, y in ((x1, y0), (x1, y1), (x0, y1), (x0, y0)):
            self.page.mouse.move(x, y, steps=5)
        self.page.mouse.up()
        self.page.wait_for_timeout(150)

    def box(self, x0, y0, x1, y1) -> None:
        self.page.get_by_role("button", name="Box", exact=True).click()
        self.page.mouse.move(x0, y0)
        self.page.mouse.down()
        self.page.mouse.move(x1, y1, steps=5)
        self.page.mouse.up()
        self.page.wait_for_timeout(150)

    def painted(self, i: int, pane: int = 0) -> bool:
        """Whether the canvas itself has the point's colour at the point's place."""
        return self.get(
            f"""(() => {{
              const p = view.panes[{pane}].plot, s = p.screen(a), c = p.colours[a];
              p.redraw(); p.draw();
              const [r, g, b] = p.points.getContext('2d').getImageData(Math.floor(s.x), Math.floor(s.y), 1, 1).data;
              return r === (c & 255) && g === ((c >> 8) & 255) && b === c >> 16;
            }})()""",
            i,
        )

    def pixels(self, name: str, pane: int = 0) -> int:
        """How many pixels of the canvas have exactly the colour of a category."""
        return self.get(
            f"""(() => {{
              const {{ plot, column }} = view.panes[{pane}];
              const c = plot.colouring.table[column.names.indexOf(a)], canvas = plot.points;
              plot.redraw(); plot.draw();
              const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
              const seen = new Uint32Array(data.buffer);
              return seen.reduce((n, v) => n + ((v & 0xffffff) === c), 0);
            }})()""",
            name,
        )

    def selected(self, pane: int = 0) -> list[int]:
        return self.get(f"view.pointsOf(view.panes[{pane}])")


@pytest.fixture
def maps(page, mapped, go) -> Maps:
    go(page, mapped[0].url, "Clusters")
    page.wait_for_function("document.querySelector('.widget-clusters')?.scatter?.panes[0].map", timeout=60_000)
    page.wait_for_function("document.querySelector('.widget-clusters').scatter.panes[0].plot.width > 0")
    page.wait_for_timeout(300)
    found = Maps(page)
    if found.get("view.panes[0].map.key") != mapped[3][1]:  # an earlier test has drawn another, which opens first
        found.get("view.show(view.panes[0], a)", mapped[3][1])
        page.wait_for_timeout(300)
    return found


def click_shows(maps: Maps, i: int, pane: int = 0) -> None:
    """Clicks point i, which is painted where it is said to be, and checks, by id, that its image comes."""
    assert maps.painted(i, pane)
    maps.page.mouse.click(*maps.place(i, pane))
    image = maps.page.locator(f".detail .image[data-point='{i}']")
    image.wait_for()
    case, lesions = maps.get(f"[view.panes[{pane}].map.cases[a], view.panes[{pane}].map.lesions[a]]", i)
    assert image.get_attribute("data-case") == str(case)
    assert f"/points/{i}/image.png" in image.get_attribute("src")
    heading = maps.page.locator(".detail h2").inner_text()
    assert heading.endswith(f"A{chr(0x2080 + lesions)}") == (lesions > 0)


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
    page.wait_for_timeout(300)
    assert maps.get("view.panes[0].map.key !== view.panes[1].map.key")
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    maps.lasso(box["x"] + 3, box["y"] + 3, box["x"] + box["width"] / 2, box["y"] + box["height"] - 3)
    ids = "view.pointsOf(view.panes[{0}]).map((i) => view.panes[{0}].map.ids[i]).sort()"
    here, there = maps.get(ids.format(0)), maps.get(ids.format(1))
    assert here == there and 0 < len(here) < maps.get("view.panes[0].map.n")


def test_neighbours_on_the_page_equal_brute_force(maps, mapped):
    _, store, _, keys = mapped
    i = maps.alone()
    maps.page.mouse.click(*maps.place(i))
    maps.page.locator(".near .thumb").nth(9).wait_for()
    shown = [int(b.get_attribute("data-point")) for b in maps.page.locator(".near .thumb").all()]
    m = library.open_map(store, keys[1])
    x = np.asarray(explore.features(store, m), np.float64)
    assert shown == NearestNeighbors(n_neighbors=10, algorithm="brute").fit(x).kneighbors()[1][i].tolist()


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
    page.wait_for_function("document.querySelector('.widget-clusters')?.scatter?.panes[0].map", timeout=60_000)
    assert maps.selected() == []
    page.locator(".menu.views summary").click()
    page.get_by_role("button", name="all of it", exact=True).click()
    page.get_by_text(f"{count} selected").wait_for()


def test_figures_and_tables_are_downloaded(maps):
    page = maps.page
    for group, start in (("SVG", b"<?xml"), ("CSV", b"epoch,point,x,y,case_id")):
        page.locator(".menu.out summary").click()
        with page.expect_download() as caught:
            page.locator(".menu.out a", has_text=group).first.click()
        assert Path(caught.value.path()).read_bytes().startswith(start)
        page.wait_for_timeout(100)


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
    page.get_by_text("no cases of its study").wait_for()
    page.locator(".menu.place summary").click()
    page.get_by_role("button", name="Take ward 3 off the map").click()
    page.wait_for_function(
        "(n) => document.querySelector('.widget-clusters').scatter.panes[0].map.n === n", arg=own, timeout=60_000
    )
    assert projected.list_projected(store, keys[1]) == []


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
    page.wait_for_function("document.querySelector('.widget-clusters')?.scatter?.panes[0].map", timeout=60_000)
    page.wait_for_timeout(300)
    assert page.evaluate("window.said") == []


def test_numbers_tell_their_course_and_where_they_disagree_with_the_map(maps, mapped):
    page, about = maps.page, library.open_map(mapped[1], mapped[3][1]).about
    values = [e["numbers"]["classes"]["silhouette"] for e in about["epochs"]]
    page.get_by_role("button", name="Silhouette over the epochs").click()
    dots = page.locator(".numbers .course circle")
    assert dots.count() == 3
    heights = [float(d.get_attribute("cy")) for d in dots.all()]
    assert np.argsort(heights).tolist() == np.argsort([-v for v in values]).tolist()
    warned = 0
    for e in (0, 1, 2):
        dots.nth(e).click()
        assert page.locator(".pane[data-pane='0'] .epoch").inner_text() == f"epoch {e}"
        assert page.locator(".numbers .course text.now").text_content() == f"{values[e]:.2f}"
        told = about["epochs"][e]["numbers"]["classes"]["warnings"]
        assert page.locator(".numbers .warning").all_inner_texts() == told
        warned += len(told)
    assert warned > 0  # a map of an untrained encoder is warned of at least once


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
