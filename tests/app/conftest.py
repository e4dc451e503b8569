"""A real browser against a real server: a home with a small study, the server in a process of its own, Chromium."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from argon2 import PasswordHasher

from app.routes import _changes
from core.studio.review import people
from tests.conftest import wait

ROOT = Path(__file__).resolve().parents[2]
REAL = Path(os.environ.get("PMSACL_DATA", ROOT.parent / "shared" / "data"))
STUDY = "small"
# Without the last two, each new window of a system's Chromium spends a second of processor time on pages for its
# address bar, which nobody sees. The switch replaces Playwright's own, so that what matters of that one comes first.
WITHOUT = (
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades", "LensOverlay", "MediaRouter", "OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning",
    "Translate", "AimEnabled", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
)  # fmt: skip
CHROMIUM = [
    "--disable-features=" + ",".join(WITHOUT),
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def small_folder(target: Path, train: int = 24, normal: int = 6, abnormal: int = 6) -> Path:
    """A folder of colonoscopy frames with masks: real ones where they are at hand, else blobs drawn from a seed."""
    source = REAL / "hyperkvasir"
    if source.is_dir():
        for part, count in (("train/normal", train), ("test/normal", normal), ("test/abnormal", abnormal)):
            (target / part).mkdir(parents=True)
            for path in sorted((source / part).iterdir())[:count]:
                shutil.copy(path, target / part)
        (target / "test/mask").mkdir()
        for path in (target / "test/abnormal").iterdir():
            shutil.copy(source / "test/mask" / f"{path.stem}.png", target / "test/mask")
        return target
    rng = np.random.default_rng(0)
    for part, count in (("train/normal", train), ("test/normal", normal), ("test/abnormal", abnormal)):
        (target / part).mkdir(parents=True)
        (target / "test/mask").mkdir(parents=True, exist_ok=True)
        for i in range(count):
            coarse = rng.integers(60, 200, (8, 8, 3), np.uint8)
            image = cv2.resize(coarse, (192, 160), interpolation=cv2.INTER_CUBIC)
            if part.endswith("abnormal"):
                mask = np.zeros((160, 192), np.uint8)
                cv2.circle(mask, (int(rng.integers(50, 140)), int(rng.integers(50, 110))), 22, 255, -1)
                image[mask > 0] = image[mask > 0] // 2 + np.array([20, 40, 120], np.uint8)
                cv2.imwrite(str(target / "test/mask" / f"{i:03}.png"), mask)
            cv2.imwrite(str(target / part / f"{i:03}.png"), image)
    return target


def frames(source: Path, target: Path, counts: dict[str, int]) -> Path:
    """So many images of each part of a study's folder, evenly taken."""
    for part, count in counts.items():
        (target / part).mkdir(parents=True)
        every = sorted((source / part).iterdir())
        for path in every[:: max(1, len(every) // count)][:count]:
            shutil.copy(path, target / part)
    return target


class Served:
    """A studio's server in a process of its own. `url` ends in '/'."""

    def __init__(self, home: Path, *arguments: str):
        self.home = home
        self.arguments = arguments
        self.log = home.parent / f"{home.name}-server.log"
        self.start()

    def start(self, port: int = 0) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
        command = [sys.executable, "-m", "app.server", "--home", str(self.home), "--port", str(port), *self.arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.killed = False
        deadline = time.monotonic() + 240  # seconds; 5 on a quiet machine
        while time.monotonic() < deadline:
            lines = [line for line in self.log.read_text().splitlines() if line.startswith("http")]
            if lines:
                self.url = lines[0]
                try:
                    urllib.request.urlopen(self.url + "favicon.svg", timeout=5).close()
                    return
                except OSError:
                    pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"the server did not start:\n{self.log.read_text()}")

    def kill(self) -> None:
        """The hard way, as a power cut would."""
        self.killed = True
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Raises AssertionError with what it said last if the server had ended by itself."""
        ended = self.process.poll()
        assert ended in (None, 0) or self.killed, (
            f"the server ended by itself ({ended}):\n{self.log.read_text()[-6000:]}"
        )
        if ended is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


@pytest.fixture(scope="session", autouse=True)
def _quick_hashes() -> None:
    """Passwords are hashed as they are stored, with the least work: each of our own would take 50 ms."""
    people._HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture(scope="session", autouse=True)
def _short_streams() -> None:
    """A stream of events ends with its first status in a server of this process, whose clients read an answer whole."""
    _changes.LIFE = 0.0


@pytest.fixture(autouse=True)
def _no_worker(request) -> None:
    """In access/ and routes/ jobs are queued and never run."""
    if request.path.parent.name in ("access", "routes"):
        request.getfixturevalue("no_worker")


@pytest.fixture(scope="session")
def own_home(tmp_path_factory):
    """own_home("sizes") -> the home of one module's tests: it holds the study `small`, imported, and nothing else."""
    from core.studio.db import opening
    from core.studio.ingest import studies

    imported = tmp_path_factory.mktemp("page") / "home"
    opened = opening.open(str(imported))
    studies.import_study(opened, STUDY, small_folder(tmp_path_factory.mktemp("images") / "folder"), copy=True)
    opened.close()  # nothing opens this one again: a copy is as if new, whatever other tests do

    def copy(name: str) -> Path:
        return Path(shutil.copytree(imported, tmp_path_factory.mktemp(name) / "home"))

    return copy


@pytest.fixture(scope="session")
def small_home(own_home) -> Path:
    """The home of the shared server."""
    return own_home("shared")


@pytest.fixture(scope="session")
def served(small_home) -> Iterator[Served]:
    """The shared server, single-user, on a free port."""
    server = Served(small_home)
    yield server
    server.stop()


@pytest.fixture
def unused(tmp_path) -> Iterator[Served]:
    """A studio that nobody has used yet."""
    server = Served(tmp_path / "home")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def page_url(served) -> str:
    return served.url


@pytest.fixture(scope="session")
def browser():
    """Chromium by Playwright: its own if it was installed, else the system's. No browser is a failure, not a skip."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            launched = playwright.chromium.launch(args=CHROMIUM)
        except Error:
            found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
            assert found, "no Chromium: run `python launch.py test`, which installs one"
            launched = playwright.chromium.launch(executable_path=found, args=CHROMIUM)
        yield launched
        launched.close()


@pytest.fixture
def page(browser, page_url):
    """A fresh page at 1366 x 768. It fails the test if a script failed or an outside address was asked for."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(60_000)  # a busy machine; most waits are well below a second
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    inside = ("http://127.0.0.1:", "http://localhost:", "data:", "blob:")
    opened.on("request", lambda r: None if r.url.startswith(inside) else wrong.append(f"outside: {r.url}"))
    yield opened
    context.close()
    assert not wrong, wrong


def open_tab(page, url: str, tab: str, study: str = STUDY) -> None:
    """Opens the page at a study and tab and waits until the tab's widget is alive."""
    page.goto(f"{url}?study={study}&tab={tab.lower()}")
    page.wait_for_function("window.Studio && window.Studio.started", timeout=30_000)
    page.get_by_role("tab", name=tab, exact=True).click()
    page.wait_for_selector(f".widget-{tab.lower()}[data-ready]", state="attached")
    if tab == "Training" and page.locator(".advanced-turn[aria-expanded=false]").count():
        page.locator(".advanced-turn").click()


def manage(page, name: str) -> None:
    """Chooses an entry of the Study tab's menu "Manage"."""
    menu = page.locator(".study-main details.menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name=name).click()


def preset(page, name: str) -> None:
    """Chooses a preset of the MedMix tab."""
    page.locator(".presets summary").click()
    page.locator(".presets .item", has=page.locator("b", has_text=re.compile(rf"^{name}$"))).click()


def routed(page, address, handler, **more) -> None:
    """`page.route` on a page that is at work: from here on no request to the address goes past the handler.

    The browser says that it stops requests a moment before it does; what is asked within that moment would slip by.
    """
    page.route(address, handler, **more)
    probe = "**/favicon.svg?stopped"
    page.route(probe, lambda route: route.fulfill(status=204))
    wait(lambda: page.evaluate("fetch('/favicon.svg?stopped').then((answer) => answer.status)") == 204)
    page.unroute(probe)


def arrived(page, held: list, count: int = 1) -> None:
    """Waits until so many requests stand in `held`, where a route of the page keeps them: asking takes its time."""
    wait(lambda: page.wait_for_timeout(20) or len(held) >= count, what=f"request {count}")


@pytest.fixture(scope="session")
def go():
    """`go(page, url, "Review")`: see `open_tab`."""
    return open_tab
