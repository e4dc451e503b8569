"""A study of 10,000 and of 100,000 images of 64 px: seconds and memory by stage, and each page's slowest answer.

Images are drawn by the demo's painter; beyond the first 600 they are links to these. Six in ten are normal images to
train on, two normal and two abnormal to test. Each stage runs in a process of its own: import, the arrays' preparation,
some real steps of a PMSACL training on all images, PaDiM's fit on EfficientNet-lite0, its scores and maps of all
held-out and test images, their evaluation, and a map of the features. Then the page is opened on every tab.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.benches._clusters_page import chromium
from app.benches._server import ROOT, serve
from app.benches._stages import SIDE, STAGES, STUDY
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.demo.drawing import FOLDERS, MASKS, draw

COUNTS, DRAWN = (10_000, 100_000), {"train": 360, "test_normal": 120, "test_abnormal": 120}
PARTS = {"train": 0.6, "test_normal": 0.2, "test_abnormal": 0.2}
TABS = ("study", "medmix", "training", "clusters", "review", "results", "report")
PATIENCE = 600_000  # milliseconds
ASKED = """() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).map((e) =>
  [new URL(e.name).pathname, e.responseEnd - e.requestStart])"""


def run(quick: bool = False, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """ "studies": by number of images, "stages": {stage: {"seconds", "cpu_seconds", "peak_mib", "own_mib"}}, "pages":
    {tab: [slowest answer's path, milliseconds]}, "disk_mib" of the home. ratio: of all stages' processor seconds, those
    an image costs in the largest study over those in the smallest (1: linear). "stage_ratio": the same by stage.

    only: numbers of images, as text, instead of 10,000 and 100,000.
    """
    counts = tuple(int(count) for count in only) if only else (200, 400) if quick else COUNTS
    studies = {}
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="pmsacl-scale-") as name:
            studies[count] = _measure(Path(name), count, pages=not quick)
    least, most = studies[min(counts)], studies[max(counts)]
    grown = max(counts) / min(counts)

    def ratio(names: list[str]) -> float:
        def busy(study: dict) -> float:
            return sum(study["stages"][name]["cpu_seconds"] for name in names)

        return round(busy(most) / busy(least) / grown, 3) if busy(least) else float("nan")

    by_stage = {name: ratio([name]) for name in STAGES}
    return {"ratio": ratio(list(STAGES)), "stage_ratio": by_stage, "studies": {str(k): v for k, v in studies.items()}}


def _measure(folder: Path, count: int, pages: bool) -> dict[str, Any]:
    draw_files(folder / "images", count)
    home, stages = folder / "home", {}
    for stage in STAGES:
        line = [sys.executable, "-m", "app.benches._stages", stage, str(home), str(folder / "images")]
        done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"{stage} of {count} images failed: {done.stderr.strip()[-500:]}")
        stages[stage] = json.loads(done.stdout.splitlines()[-1])
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return {"stages": stages, "disk_mib": round(size / 2**20), "pages": _pages(home) if pages else {}}


def draw_files(folder: Path, count: int) -> None:
    """`count` images of a study in its folders, with masks: drawn ones first, then links to them."""
    for part, share in PARTS.items():
        there = folder / FOLDERS[part]
        there.mkdir(parents=True)
        (folder / MASKS).mkdir(exist_ok=True, parents=True)
        drawn = min(DRAWN[part], round(share * count))
        for i in range(drawn):
            draw((0, part, i, SIDE, str(folder)))
        files = sorted(there.iterdir())
        for i in range(drawn, round(share * count)):
            source = files[i % drawn]
            os.link(source, there / f"link-{i:06}.png")
            if part == "test_abnormal":
                os.link(folder / MASKS / source.name, folder / MASKS / f"link-{i:06}.png")


def _pages(home: Path) -> dict[str, list]:
    """tab -> [path, milliseconds] of the slowest answer it asked for, the second time that it was opened."""
    store = Store(Home.at(home))
    server, url = serve(store)
    found = {}
    try:
        with chromium() as browser:
            for tab in TABS:
                for _ in range(2):
                    page = browser.new_page(viewport={"width": 1366, "height": 768})
                    page.set_default_timeout(PATIENCE)
                    page.goto(f"{url}?study={STUDY}&tab={tab}")
                    page.wait_for_function("window.Studio && window.Studio.started")
                    page.wait_for_load_state("networkidle")
                    asked = page.evaluate(ASKED)
                    page.close()
                path, took = max(asked, key=lambda one: one[1])
                found[tab] = [path, round(took)]
    finally:
        server.terminate()
        server.wait(30)
        store.close()
    return found
