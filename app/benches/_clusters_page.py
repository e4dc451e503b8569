"""The browser's part of the bench: the widget's own modules in headless Chromium, then the whole page."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
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
  const lasso = time(() => plot.grid.inside(circle, plot.visible), 9);
  const named = { pan, zoom, scrub, hover, lasso };
  return Object.fromEntries(Object.entries(named).flatMap(([k, [m, b]]) => [[`${k}_ms`, m], [`${k}_best_ms`, b]]));
}"""
ALONE = """() => { const p = document.querySelector('.widget-clusters').scatter.panes[0].plot;
  const b = p.over.getBoundingClientRect(); const i = Math.floor(Math.random() * p.map.n); const s = p.screen(i);
  return [b.left + s.x, b.top + s.y]; }"""


@contextlib.contextmanager
def chromium():
    """Playwright's Chromium, or the system's. ValueError says what to do when there is none."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise ValueError("this bench needs a browser: run `python launch.py test` once, which installs it") from None
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(args=options)
        except Error:
            found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
            if not found:
                raise ValueError("this bench needs Chromium: run `python launch.py test` once") from None
            browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None: ...


def frames(sizes: dict[str, int]) -> dict:
    """Medians and best times in milliseconds by number of points, drawn at 1000 x 640 without a graphics card."""
    handler = functools.partial(_Quiet, directory=str(ROOT / "app"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = {}
    try:
        with chromium() as browser:
            for name, n in sizes.items():
                page = browser.new_page(viewport={"width": 1366, "height": 768})
                page.goto(f"http://127.0.0.1:{server.server_address[1]}/widgets/clusters/js/")
                found[name] = {k: round(v, 2) for k, v in page.evaluate(FRAMES, n).items()}
                page.close()
    finally:
        server.shutdown()
    return found


def answers(parts: list[str]) -> dict:
    """Seconds from a click to its image and from a lasso to 40 thumbnails, on the whole page with a drawn study.

    parts: "click", "lasso", or both.
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
                return {k: v for part in parts for k, v in measured[part](page).items()}
        finally:
            process.terminate()
            process.wait(20)


def _home(folder: Path) -> Path:
    """A study of drawn frames, an untrained encoder, a PCA map of all images."""
    from core.engine.backbones.config import EncoderConfig
    from core.engine.backbones.encoder import build_encoder, save_encoder
    from core.studio.clusters.config import MapConfig
    from core.studio.db import store
    from core.studio.ingest import studies
    from core.studio.jobs.steps import STEPS, Work
    from core.studio.runs import records as runs

    rng = np.random.default_rng(0)
    for part, count in (("train/normal", 200), ("test/normal", 60), ("test/abnormal", 60)):
        (folder / "images" / part).mkdir(parents=True)
        for i in range(count):
            image = cv2.resize(rng.integers(40, 220, (6, 6, 3), np.uint8), (320, 288), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / "images" / part / f"{i:04}.png"), image)
    opened = store.open(str(folder / "home"))
    studies.import_study(opened, "bench", folder / "images")
    run = runs.create_run(opened, "bench", "pretrain", "pmsacl", {"size": 32, "k": 3, "medmix": {}})
    save_encoder(build_encoder(EncoderConfig()), runs.run_folder(opened, run) / "epochs/0000")
    config = MapConfig(method="pca", feature="projected").to_dict()
    STEPS["embed"](Work(opened, run, {"config": config, "device": "cpu"}))
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
