"""Pictures of the page for README and app/README, made anew from the page: every tab, light and dark, at three sizes.

`python -m tests.tools.pictures --home DIR` photographs the demo study of a home (without --home, of a new one,
into which the ready study is imported); `--all FOLDER` also keeps each picture by itself; `--minute FOLDER` joins what
`PMSACL_PICTURES=FOLDER python launch.py bench first-minute` keeps. `assets/pictures.json` holds what could be read on
them: tests/app/test_page.py says when the page has moved on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

from app.page import TABS
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.demo import study as demo
from tests.benches._server import chromium, serve

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
NOTE = ASSETS / "pictures.json"
SIZES = {"laptop": (1366, 768), "desk": (1920, 1080), "tablet": (834, 1112)}
THEMES = ("dark", "light")
ALONE = {"review": "review.jpg", "medmix": "medmix.jpg"}  # shown by themselves, dark, on a laptop
BEFORE = {"review": "598e4a22:assets/review.png", "medmix": "598e4a22:assets/medmix.png"}  # as version 0.2.0 shows them
FINE = [cv2.IMWRITE_JPEG_QUALITY, 80]
PATIENCE = 240_000  # milliseconds; a busy machine
STUDY = "demo"
THERE = {  # what a tab's picture waits for
    "study": ".study-main .tiles svg image",
    "medmix": ".widget-medmix[data-painted]",
    "training": ".training-room .runs tr[data-run]",
    "clusters": ".scatter-room .stage canvas",
    "review": ".widget-review .rv-rows .rv-row[aria-current]",
    "results": ".rs-page .rs-two table",
    "trials": ".widget-trials h2",
    "report": ".widget-report h2",
}
BARE = re.compile("imagenet|untrained|auto|weights")  # encoders without a training have no curves to show
WORDS = """() => [...document.querySelectorAll(
    '#rooms .widget button, #rooms .widget h2, #rooms .widget h3, #rooms .widget th, #rooms .widget label > span')]
  .filter((e) => e.checkVisibility()).map((e) => e.textContent.trim())
  .filter((text) => /^[A-Z][A-Za-z ]{2,30}$/.test(text))"""
NO_PATH = """(path) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let t = texts.nextNode(); t; t = texts.nextNode()) t.data = t.data.replaceAll(path, '');
}"""  # where a home lies on this machine is not for a picture
CONTROL = re.compile(r"<(?:button|input|select)\b|el\(\s*'(?:button|input|select)'|\b(?:slider|toggle|action|check)\(")


def sources() -> dict[str, str]:
    """Returns the page's own text by tab, its shared scripts with each: markup and scripts."""
    shared = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "app/static").glob("*.js")))
    return {
        tab: shared + "".join(
            p.read_text(encoding="utf-8") for p in sorted((ROOT / "app/widgets" / tab).rglob("*"))
            if p.suffix in (".js", ".html")
        )
        for tab in TABS
    }  # fmt: skip


def controls() -> dict[str, int]:
    """Counts the controls that the scripts and markup of each tab make."""
    return {tab: len(CONTROL.findall(text)) for tab, text in sources().items()}


def _taken(page, url: str, tab: str, home: Path) -> np.ndarray:
    page.goto(f"{url}?study={STUDY}&tab={tab}")
    page.wait_for_function("window.Studio && window.Studio.started")
    page.wait_for_selector(THERE[tab], state="attached")
    if tab == "review":
        page.wait_for_function("document.querySelector('.widget-review').review.heat")
        page.get_by_role("button", name="Two", exact=True).click()
    if tab == "clusters" and page.locator(".scatter-room .nothing:visible").count():
        page.locator(".scatter-room .go").click()
        page.wait_for_function("!document.querySelector('.scatter-room .nothing')?.checkVisibility()")
    trained = page.locator(".training-room tr[data-run]:not(.child):has(.state.done)").filter(has_not_text=BARE)
    if tab == "training" and trained.count():
        trained.first.click()
        page.wait_for_function("document.querySelector('.training-room .board img')?.complete")
    page.evaluate(NO_PATH, f"{home}/")
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement?.blur()")
    page.wait_for_timeout(4000)  # what is drawn at last: pictures of a list, curves, a toast that leaves
    return np.asarray(cv2.imdecode(np.frombuffer(page.screenshot(), np.uint8), cv2.IMREAD_COLOR))


def _matching(page, url: str) -> list[np.ndarray]:
    """Matching lesions on the MedMix tab, while it searches and afterwards."""
    page.goto(f"{url}?study={STUDY}&tab=medmix")
    page.wait_for_selector(THERE["medmix"])
    page.get_by_role("button", name="Match lesions").click()
    page.get_by_role("button", name="Choose 5").click()
    page.get_by_role("button", name="Match", exact=True).click()
    page.wait_for_selector(".match .big")
    shots = [page.screenshot()]
    page.wait_for_selector(".match .missed")
    page.evaluate("document.activeElement?.blur()")
    page.wait_for_timeout(3000)
    shots.append(page.screenshot())
    return [np.asarray(cv2.imdecode(np.frombuffer(s, np.uint8), cv2.IMREAD_COLOR)) for s in shots]


def _sheet(pictures: list[np.ndarray], path: Path) -> None:
    """Two columns, half as large."""
    small = [cv2.resize(p, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA) for p in pictures]
    rows = [np.hstack(small[i : i + 2]) for i in range(0, len(small), 2)]
    cv2.imwrite(str(path), np.vstack(rows), FINE)


def _before(blob: str) -> np.ndarray:
    """A picture out of the repository's history. ValueError where a shallow copy lacks it."""
    shown = subprocess.run(["git", "show", blob], cwd=ROOT, capture_output=True)
    if shown.returncode:
        raise ValueError(f"the history of this copy lacks {blob}: git fetch --unshallow brings it")
    return np.asarray(cv2.imdecode(np.frombuffer(shown.stdout, np.uint8), cv2.IMREAD_COLOR))


def make(home: Path, every: Path | None = None) -> list[Path]:
    """Writes the pictures of the page into assets/; returns their paths. every: a folder that gets each of them."""
    store = opening.open(Home.at(home))
    server, url = serve(store)
    url = f"{url.rstrip('/')}/"
    shots: dict[tuple[str, str, str], np.ndarray] = {}
    matching: list[np.ndarray] = []
    words: dict[str, list[str]] = {}
    texts = sources()
    try:
        with chromium() as browser:
            for size, (width, height) in SIZES.items() if every else [("laptop", SIZES["laptop"])]:
                for theme in THEMES:
                    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
                    page = context.new_page()
                    page.set_default_timeout(PATIENCE)
                    for tab in TABS:
                        shots[size, theme, tab] = _taken(page, url, tab, home)
                        if (size, theme) == ("laptop", "dark"):
                            words[tab] = sorted({w for w in page.evaluate(WORDS) if w in texts[tab]})
                    if size == "laptop":
                        matching += _matching(page, url)
                    context.close()
    finally:
        server.terminate()
        store.close()
    for (size, theme, tab), picture in shots.items() if every else ():
        cv2.imwrite(str(Path(every or "") / f"{tab}-{theme}-{size}.png"), picture)
    paths = []
    for theme in THEMES:
        paths.append(ASSETS / f"tabs-{theme}.jpg")
        _sheet([shots["laptop", theme, tab] for tab in TABS], paths[-1])
    for tab, name in ALONE.items():
        paths.append(ASSETS / name)
        cv2.imwrite(str(paths[-1]), shots["laptop", "dark", tab], FINE)
    paths.append(ASSETS / "matching.jpg")
    _sheet(matching, paths[-1])
    paths.append(ASSETS / "before-now.jpg")
    _sheet([p for tab, blob in BEFORE.items() for p in (_before(blob), shots["laptop", "dark", tab])], paths[-1])
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    note = {"files": digests, "tabs": list(TABS.values()), "words": words, "controls": controls()}
    NOTE.write_text(json.dumps(note, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return paths


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the pictures of README and app/README anew")
    parser.add_argument("--home", type=Path, help="with the demo study; else one is made")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="gets each picture, at all sizes")
    parser.add_argument("--minute", type=Path, metavar="FOLDER", help="only first_minute.jpg, of bench first-minute")
    args = parser.parse_args()
    if args.minute:
        moments = [cv2.imread(str(args.minute / f"{moment}.png")) for moment in ("page", "first_case")]
        _sheet([np.asarray(moment) for moment in moments], ASSETS / "first_minute.jpg")
        return 0
    if args.all:
        args.all.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pmsacl-pictures-") as folder:
        home = args.home or Path(folder)
        if args.home is None:
            store = opening.open(Home.at(home))
            demo.offer(store)
            store.close()
        for path in make(home, args.all):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
