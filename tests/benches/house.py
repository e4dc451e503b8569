"""The code base in figures: its size, what three ways through it pass, and its start; here and in another checkout."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benches import ROOT, bench
from tests.benches._server import chromium
from tests.benches.clusters import frames
from tests.benches.opening import opened

KINDS = {
    "product": ("app/*.py", "core/*.py", "launch.py"),
    "tests": ("tests/*.py",),
    "script": ("app/*.js",),
}
# Runs where `core` and `app` are those of the checkout that it counts, with what all versions from 0.2 on have.
WALK = """
import json, os, sqlite3, sys, threading
from pathlib import Path
os.environ["CUDA_VISIBLE_DEVICES"] = ""
root, folder = (Path(p) for p in sys.argv[1:])
sys.path[0] = str(root)
places = tuple(str(root / floor) + os.sep for floor in ("core", "app"))
passed, sent, walks, walking = set(), [], {}, []
connect = sqlite3.connect

def traced(*args, **kwargs):
    connection = connect(*args, **kwargs)
    connection.set_trace_callback(lambda text: sent.append(text.strip()) if walking else None)
    return connection

sqlite3.connect = traced

def note(frame, event, arg):
    code = frame.f_code
    if walking and event == "call" and code.co_filename.startswith(places) and code.co_name[0] != "<":
        passed.add((code.co_filename, code.co_firstlineno))

CONTROL = ("PRAGMA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "--")

def walk(name, steps):
    passed.clear()
    sent.clear()
    walking.append(name)
    steps()
    walking.clear()
    asked = [s for s in sent if not s.upper().startswith(CONTROL)]
    # what a trigger does is reported under the statement that set it off, right behind that
    asked = [s for s, last in zip(asked, ["", *asked]) if s != last or s.startswith("SELECT")]
    files = {file for file, _ in passed}
    walks[name] = {"functions": len(passed), "files": len(files), "statements": len(asked)}

sys.setprofile(note)
threading.setprofile(note)  # of threads that begin from now on, the server's among them

import cv2, numpy, torch
from fastapi.testclient import TestClient
from app.context import Context
from app.server import build
from core.engine.training.pretrain import PRETRAIN_PRESETS
from core.engine.training.pretraining import Data, Pretraining
from core.studio.db.home import Home
from core.studio.ingest.studies import add_cases, import_study
from core.studio.runs.pipeline import create_fit, create_untrained, fit_run, pretrain_run
from core.studio.runs.scoring import score_new, score_run

pixels = numpy.random.default_rng(0).integers(0, 255, (8, 64, 64, 3), dtype=numpy.uint8)
config = PRETRAIN_PRESETS["imagenet"].replace(size=64, batch=4, **{"encoder.init": "random"})
training = Pretraining(config, Data(pixels, numpy.ones(pixels.shape[:3], numpy.uint8)), torch.device("cpu"))
training.prepare()
training.advance()
walk("minibatch", training.advance)

for place, count in {"study/train/normal": 24, "study/test/unknown": 4, "added": 1}.items():
    (folder / place).mkdir(parents=True)
    for i in range(count):
        coarse = numpy.random.default_rng([len(place), i]).integers(60, 200, (8, 8, 3), numpy.uint8)
        cv2.imwrite(str(folder / place / f"{i}.png"), cv2.resize(coarse, (512, 512), interpolation=cv2.INTER_CUBIC))
store = Context(home=Home.at(folder / "home")).store()
import_study(store, "s", folder / "study")
untrained = create_untrained(store, "s", 64)
pretrain_run(store, untrained, "cpu")
fit = create_fit(store, untrained, "padim", {})
fit_run(store, fit, "cpu")
score_run(store, fit, "cpu")
with TestClient(build(folder / "home"), base_url="http://127.0.0.1") as client:
    listed = {"study": "s", "run": fit, "split": "test"}
    def ok(answer):
        assert answer.status_code == 200, answer.text[:300]
        return answer.json()
    case = ok(client.get("/api/review/step", params={**listed, "case": 0}))["case"]["id"]
    def image():
        add_cases(store, "s", [folder / "added/0.png"])
        assert score_new(store, fit, "cpu") == 1
        ok(client.get("/api/review/step", params={**listed, "case": 0}))
        assert client.get(f"/api/case/{case}/pack", params={"run": fit}).status_code == 200
    walk("image", image)
    body = {"decision": "normal", "list": listed}
    ok(client.post("/api/review/decide", json={**body, "case": case, "token": "warm"}))
    walk("decision", lambda: ok(client.post("/api/review/decide", json={**body, "case": case, "token": "walked"})))
print(json.dumps(walks))
"""


# Milliseconds of a frame of the picture with its heat map, until its pixels are there: a tenth of 60 frames take less.
VIEWER = """async () => {
  const { review } = document.querySelector('.widget-review');
  const { paint } = await import('/page/widgets/review/js/paint.js');
  const { view, show } = review;
  Object.assign(show, { heat: true, contour: false }); // a contour is as long as the map is rough, at its threshold
  const times = (change) => {
    const all = [];
    view.fit();
    for (let k = 0; k < 60; k++) {
      change(k);
      const start = performance.now();
      paint(review);
      for (const { context } of review.panes) context.getImageData(0, 0, 1, 1);
      all.push(performance.now() - start);
    }
    return all.sort((a, b) => a - b)[6];
  };
  const zoom = times((k) => view.zoomAt(200, 200, k % 20 < 10 ? 1.1 : 1 / 1.1));
  const pan = times((k) => view.pan(k % 20 < 10 ? 9 : -9, 4));
  const level = times((k) => { show.window = { centre: 100 + k, width: 150 + k }; });
  return { zoom_ms: zoom, pan_ms: pan, window_ms: level };
}"""


@bench("house")
def house(quick: bool = False, data: str | None = None) -> dict[str, Any]:
    """Code base: size, functions that three ways through it call, the page's speed; here and elsewhere (--data).

    --data: another checkout to compare with. size: lines, files and the files' median lines of product, tests and
    script, of what git knows. walks: a minibatch through PMSACL's step; an image from its file to the reader's screen;
    a decision from the page's request to the answer with the next case. Caches are warm, as in use; functions and files
    of `core` and `app` count once, and the database's statements but PRAGMA and what opens or ends a transaction.
    start_seconds: from the server's command to its first whole page, the median of three. page (not quick): see
    `_page`; the least of five rounds, in turns (what else the machine does only adds), each checkout on a home that it
    has made itself.
    """
    checkouts = {"here": ROOT} | ({"there": Path(data).resolve()} if data else {})
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, root in checkouts.items():
            walks = _walked(root, Path(folder) / name)
            figures[name] = {"size": _size(root), "walks": walks, "start_seconds": _start(root, 1 if quick else 3)}
        rounds = [] if quick else range(5)
        pages = [{name: _page(root, Path(folder) / name / "home") for name, root in checkouts.items()} for _ in rounds]
    for name in checkouts if pages else ():
        keys = pages[0][name]
        figures[name]["page"] = {key: round(min(p[name][key] for p in pages), 2) for key in keys}
    return figures


def _page(root: Path, home: Path) -> dict[str, float]:
    """Seconds from the command, server and browser cold, to the first answer and first case; milliseconds of frames.

    zoom, pan, window: of an image of 512 pixels with its heat map; scatter: of 10,000 points.
    """
    began = time.perf_counter()
    with opened(str(home), root=root) as (url, answered), chromium() as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.set_default_timeout(120_000)  # milliseconds; a busy machine
        page.goto(f"{url}?study=s&tab=review")
        page.wait_for_function("document.querySelector('.widget-review')?.review?.shownAt")
        seconds = time.perf_counter() - began
        page.wait_for_function("document.querySelector('.widget-review').review.heat")
        viewer = page.evaluate(VIEWER)
    scatter = frames({"10k": 10_000}, root)["10k"]
    named = {f"scatter_{key}": scatter[key] for key in ("pan_best_ms", "zoom_best_ms", "hover_best_ms")}
    return {"answer_seconds": answered, "first_case_seconds": seconds, **viewer, **named}


def _size(root: Path) -> dict[str, dict[str, int]]:
    """Lines, files and median of the files that git knows, by kind."""
    sizes = {}
    for kind, patterns in KINDS.items():
        listed = subprocess.run(["git", "ls-files", *patterns], cwd=root, capture_output=True, text=True, check=True)
        files = [root / name for name in listed.stdout.splitlines() if "/vendor/" not in name]
        lines = [len(file.read_text("utf-8").splitlines()) for file in files if file.is_file()]
        sizes[kind] = {"lines": sum(lines), "files": len(lines), "median": int(statistics.median(lines))}
    return sizes


def _walked(root: Path, folder: Path) -> dict[str, dict[str, int]]:
    """What each way passes in one checkout, on a home that it makes in `folder`."""
    folder.mkdir()
    command = [sys.executable, "-c", WALK, str(root), str(folder)]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    if answer.returncode:
        raise RuntimeError(answer.stderr[-2000:])
    return json.loads(answer.stdout.splitlines()[-1])


def _start(root: Path, times: int) -> float:
    """Median seconds from the command to the first page, on a home that is there already."""
    seconds = []
    with tempfile.TemporaryDirectory() as home:
        for _ in range(times + 1):  # the first makes the home
            with opened(home, root=root) as (_, taken):
                seconds.append(taken)
    return round(statistics.median(seconds[1:]), 2)
