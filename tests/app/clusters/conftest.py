"""The Clusters tab in a real browser: one server with two maps for all its tests, and the widget as they see it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.db import opening
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import records as runs
from tests.app.conftest import STUDY, Served
from tests.studio.clusters.conftest import snapshots

POINTS = PointsConfig(train=20, holdout=20, mixed=10, test_normal=10, abnormal=10)
LOADED = "document.querySelector('.widget-clusters')?.scatter?.panes[0].map"
# What was asked to be drawn is drawn once the frame after the next begins.
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"


@pytest.fixture(scope="session")
def mapped_home(own_home):
    """(home, run, keys): an encoder of three epochs and two maps, PCA of all and t-SNE of the last. Only copied."""
    home = own_home("mapped")
    store = opening.open(str(home))
    config = {"size": 32, "k": 3, "strong": "medmix", "medmix": {}}
    run = runs.create_run(store, STUDY, "pretrain", "pmsacl", config)
    snapshots(runs.run_folder(store, run), 3)
    runs.update_run(store, run, status="done")
    keys = []
    for config in (
        MapConfig(method="tsne", iterations=250, points=POINTS),
        MapConfig(method="pca", epochs=(0, 1, 2), points=POINTS),
    ):
        keys.append(load_step("embed")(Work(store, run, {"config": config.to_dict(), "device": "cpu"})))
    store.close()
    return home, run, keys


@pytest.fixture(scope="package")
def mapped(mapped_home, tmp_path_factory):
    made, run, keys = mapped_home
    home = Path(shutil.copytree(made, tmp_path_factory.mktemp("clusters") / "home"))
    store = opening.open(str(home))
    server = Served(home)
    yield server, store, run, keys
    server.stop()
    store.close()


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

    def enclose(self, tool: str, wide: float = 1.0) -> None:
        """Draws around the left part of the first map, with the lasso or the box."""
        box = self.page.locator(".pane[data-pane='0'] .over").bounding_box()
        x0, y0, x1, y1 = box["x"] + 3, box["y"] + 3, box["x"] + wide * box["width"] - 3, box["y"] + box["height"] - 3
        self.page.get_by_role("button", name=tool, exact=True).click()
        self.page.mouse.move(x0, y0)
        self.page.mouse.down()
        for x, y in ((x1, y0), (x1, y1), (x0, y1), (x0, y0)) if tool == "Lasso" else ((x1, y1),):
            self.page.mouse.move(x, y, steps=5)
        self.page.mouse.up()
        self.page.evaluate(PAINTED)

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
    page.wait_for_function(LOADED, timeout=60_000)
    page.wait_for_function("document.querySelector('.widget-clusters').scatter.panes[0].plot.width > 0")
    page.evaluate(PAINTED)
    found = Maps(page)
    if found.get("view.panes[0].map.key") != mapped[3][1]:  # an earlier test has drawn another, which opens first
        found.get("view.open(view.panes[0], a)", mapped[3][1])
        page.evaluate(PAINTED)
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
