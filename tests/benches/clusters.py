"""Benchmark of the cluster browser."""

from __future__ import annotations

import functools
import http.server
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cv2
import numpy as np

from tests.benches import ROOT, bench
from tests.benches._server import chromium

FRAMES = """async (n) => {
  const { Plot } = await import('/widgets/clusters/js/plot.js');
  document.body.innerHTML = '<div id=h style="position:relative;width:1000px;height:640px"></div>';
  const plot = new Plot(document.querySelector('#h'));
  const coords = new Float32Array(4 * n), codes = new Uint8Array(n), colours = new Uint32Array(n);
  const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(6.2832 * Math.random());
  for (let i = 0; i < n; i++) {
    codes[i] = i % 8; colours[i] = (i % 8) * 1973790 + 4000;
    for (const e of [0, 1]) {
      coords[2 * (e * n + i)] = Math.cos(codes[i]) * 2 + normal() * 0.5;
      coords[2 * (e * n + i) + 1] = Math.sin(codes[i]) * 2 + normal() * 0.5;
    }
  }
  plot.resize();
  plot.setMap({ key: 'bench', coords, n, epochs: 2, centres: [null, null] });
  plot.codes = codes;
  plot.names = 'abcdefgh'.split('');
  const table = Array.from({ length: 8 }, (_, c) => c * 1973790 + 4000);
  plot.setColours({ colours, visible: new Uint8Array(n).fill(1), back: null, table });
  const time = (work, times) => {
    const all = [];
    for (let k = 0; k < times; k++) { const t = performance.now(); work(k); all.push(performance.now() - t); }
    all.sort((a, b) => a - b);
    return [all[times >> 1], all[0]];
  };
  const draw = () => { plot.dirty.points = true; plot.draw(); };
  time(draw, 10);
  const pan = time((k) => { plot.pan(k % 2 ? 3 : -3, 1); draw(); }, 40);
  const zoom = time((k) => { plot.zoom(k % 2 ? 1.05 : 1 / 1.05); draw(); }, 40);
  const scrub = time((k) => { plot.setTime(((k * 7) % 40) / 40); draw(); }, 40);
  plot.setTime(0);
  const hover = time((k) => { plot.hover = plot.pick(100 + 15 * k, 320); plot.redraw(false); plot.draw(); }, 40);
  const circle = [];
  for (let k = 0; k < 120; k++) circle.push(1.5 * Math.cos(k / 19), 1.5 * Math.sin(k / 19));
  // the page of an older checkout has a grid
  const inside = () => (plot.grid ? plot.grid.inside(circle, plot.visible) : plot.inside(circle));
  const lasso = time(inside, 9);
  const named = { pan, zoom, scrub, hover, lasso };
  return Object.fromEntries(Object.entries(named).flatMap(([k, [m, b]]) => [[`${k}_ms`, m], [`${k}_best_ms`, b]]));
}"""
ALONE = """() => { const p = document.querySelector('.widget-clusters').scatter.panes[0].plot;
  const b = p.over.getBoundingClientRect(); const i = Math.floor(Math.random() * p.map.n); const s = p.screen(i);
  return [b.left + s.x, b.top + s.y]; }"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None: ...


def frames(sizes: dict[str, int], root: Path = ROOT) -> dict:
    """Measures frames of the plot: medians and best times in milliseconds by number of points.

    Drawn at 1000 x 640 without a graphics card. root: the checkout whose page it is.
    """
    handler = functools.partial(_Quiet, directory=str(root / "app"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rates = {}
    try:
        with chromium() as browser:
            for name, n in sizes.items():
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                page.goto(f"http://127.0.0.1:{server.server_address[1]}/widgets/clusters/js/")
                rates[name] = {k: round(v, 2) for k, v in page.evaluate(FRAMES, n).items()}
                page.close()
    finally:
        server.shutdown()
    return rates


def answers(parts: list[str]) -> dict:
    """Measures seconds from a click to its image and from a lasso to 40 thumbnails, on the whole page.

    It shows a drawn study. parts: "click", "lasso", or both.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = _home(Path(folder))
        command = [sys.executable, "-m", "app.server", "--home", str(home), "--port", "0"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = process.stdout.readline().strip()
            with chromium() as browser:
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                _open(page, url)
                measured = {"click": _clicks, "lasso": _lassos}
                return {k: v for name in parts for k, v in measured[name](page).items()}
        finally:
            process.terminate()
            process.wait(20)


def _home(folder: Path) -> Path:
    """A study of drawn frames, an untrained encoder, a PCA map of all images."""
    from core.engine.backbones.config import EncoderConfig
    from core.engine.backbones.encoder import build_encoder, save_encoder
    from core.studio.clusters.config import MapConfig
    from core.studio.db import opening
    from core.studio.ingest import studies
    from core.studio.jobs.steps import Work, load_step
    from core.studio.runs import records as runs

    rng = np.random.default_rng(0)
    for subfolder, count in (("train/normal", 200), ("test/normal", 60), ("test/abnormal", 60)):
        (folder / "images" / subfolder).mkdir(parents=True)
        for i in range(count):
            image = cv2.resize(rng.integers(40, 220, (6, 6, 3), np.uint8), (320, 288), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / "images" / subfolder / f"{i:04}.png"), image)
    opened = opening.open(str(folder / "home"))
    studies.import_study(opened, "bench", folder / "images")
    run = runs.create_run(opened, "bench", "pretrain", "pmsacl", {"size": 32, "k": 3, "medmix": {}})
    save_encoder(build_encoder(EncoderConfig()), runs.run_folder(opened, run) / "epochs/0000")
    config = MapConfig(method="pca", feature="projected").to_dict()
    load_step("embed")(Work(opened, run, {"config": config, "device": "cpu"}))
    opened.close()
    return folder / "home"


def _open(page, url: str) -> None:
    page.goto(f"{url}?study=bench&tab=clusters")
    page.get_by_role("tab", name="Clusters", exact=True).click()
    page.wait_for_function("document.querySelector('.widget-clusters')?.scatter?.panes[0].map", timeout=60_000)
    page.wait_for_timeout(500)


def _clicks(page) -> dict:
    clicks = []
    image = "document.querySelector('.detail .image')"
    loaded = f"(before) => {{ const i = {image}; return i && i.src !== before && i.complete; }}"
    for _ in range(7):
        page.keyboard.press("Escape")
        before = page.evaluate(f"{image}?.src")
        page.mouse.move(*page.evaluate(ALONE))
        start = time.perf_counter()
        page.mouse.down()
        page.mouse.up()
        page.wait_for_function(loaded, arg=before, polling="raf")
        clicks.append(time.perf_counter() - start)
    return {"click_to_image_s": round(statistics.median(clicks), 3)}


def _lassos(page) -> dict:
    lassos = []
    page.get_by_role("button", name="Box", exact=True).click()
    box = page.locator(".pane[data-pane='0'] .over").bounding_box()
    for k in range(5):
        page.mouse.move(box["x"] + 4 + k, box["y"] + 4)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4, steps=4)
        start = time.perf_counter()
        page.mouse.up()
        page.wait_for_function(
            "document.querySelectorAll('.tiles img').length >= 40 && [...document.querySelectorAll('.tiles img')]"
            ".slice(0, 20).every((i) => i.complete && i.naturalWidth)",
            polling="raf",
        )
        lassos.append(time.perf_counter() - start)
        page.keyboard.press("Escape")
    return {"lasso_to_gallery_s": round(statistics.median(lassos), 3)}


DIMENSIONS = 256
SIZES = {"1k": 1000, "5k": 5000, "20k": 20000}
POINTS = {"5k": 5000, "50k": 50000, "200k": 200000}
PARTS = (
    *(f"tsne-{size}" for size in SIZES),
    *(f"umap-{size}" for size in SIZES),
    *(f"frames-{size}" for size in POINTS),
    "page-click",
    "page-lasso",
)
QUICK = ("tsne-1k", "umap-1k", "frames-5k", "frames-50k", "page-click", "page-lasso")
FIT = """
import json, sys, time
from tests.benches.clusters import clouds
from core.studio.clusters.config import MapConfig
from core.studio.clusters.maps import fit_map
method, n, found = sys.argv[1], int(sys.argv[2]), {}
x = clouds(n)
for when in ("first", "warm"):
    start = time.perf_counter()
    fit_map(x, MapConfig(method=method))
    found[when + "_s"] = round(time.perf_counter() - start, 2)
print(json.dumps(found))
"""


def clouds(n: int, seed: int = 0) -> np.ndarray:
    """Draws eight overlapping clouds of points: float32 (n, 256)."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(8, DIMENSIONS))
    return (means[rng.integers(0, 8, n)] + rng.normal(size=(n, DIMENSIONS)) * 1.5).astype(np.float32)


def chosen(only: tuple[str, ...], quick: bool) -> list[str]:
    """Returns the parts that `only` names, whole or by their beginning ("umap", "frames-50k").

    Raises ValueError, which lists them all, for any other name.
    """
    for name in only:
        if not any(p == name or p.startswith(f"{name}-") for p in PARTS):
            raise ValueError(f"the bench of clouds has no part {name!r}; its parts are: {', '.join(PARTS)}")
    if not only:
        return list(QUICK if quick else PARTS)
    return [p for p in PARTS if any(p == name or p.startswith(f"{name}-") for name in only)]


@bench("clusters")
def clusters(quick: bool = False, only: tuple[str, ...] = ()) -> dict:
    """The cluster browser: fit times of t-SNE and UMAP, milliseconds per frame, click to image, lasso to gallery.

    {"fits": {method: {size: {"first_s", "warm_s"}}}, "frames": {points: ...}, "page": {...}, "ratio"}.

    Every fit has a process of its own and comes twice in it: "first" holds what the process pays once (UMAP compiles,
    and takes another path from 4,096 points on), "warm" is the same again. "ratio", where frames of 50,000 points are
    measured: 16.7 ms over one of them (1 or more is 60 frames a second). `quick`: without the long parts; `only`: these
    parts alone.
    """
    parts = chosen(only, quick)
    figures: dict = {}
    for name in parts:
        method, _, size = name.partition("-")
        if method in ("tsne", "umap"):
            figures.setdefault("fits", {}).setdefault(method, {})[size] = fit(method, SIZES[size])
    sizes = {size: n for size, n in POINTS.items() if f"frames-{size}" in parts}
    if sizes:
        figures["frames"] = frames(sizes)
        if "50k" in sizes:
            figures["ratio"] = round(1000 / 60 / figures["frames"]["50k"]["pan_ms"], 2)
    asked = [name.removeprefix("page-") for name in parts if name.startswith("page-")]
    if asked:
        figures["page"] = answers(asked)
    return figures


def fit(method: str, n: int) -> dict:
    """Times a method's fit of n points twice, in a process of its own: {"first_s", "warm_s"}."""
    command = [sys.executable, "-c", FIT, method, str(n)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"the fit of {method} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])
