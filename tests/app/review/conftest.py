"""The Review tab in a real browser: one home for the whole folder, with two scored runs, a recording and a volume."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Error

from core.studio.db import opening
from core.studio.ingest import studies
from tests.app.conftest import REAL, Served
from tests.studio.ingest.dicoms import write_dicom, write_volume
from tests.studio.review.conftest import add_readings, draw_folder

STUDY = "room"
SESSIONS = "sessions"  # and again, for reading sessions
UNREAD = "unread"  # the same images, for the one test that starts from a list in which nothing was decided
VEILED = "veiled"  # and for the one that turns blind reading on and off
WIDGET = "document.querySelector('.widget-review')"
CASES = 50
REACHED = """async () => {
    const { review } = document.querySelector('.widget-review') || {};
    const status = fetch('/api/status').then((answer) => answer.text()).catch(String);
    const answers = await Promise.race([status, new Promise((done) => setTimeout(done, 5000))]);
    const asked = performance.getEntriesByType('resource').map((r) => `${r.responseStatus} ${r.name}`).slice(-12);
    const [study, run, id] = [review?.study, review?.run, review?.detail?.id];
    return JSON.stringify({ started: window.Studio?.started, open: window.Studio?.study, study, run, id,
        listed: review?.list.box.textContent.slice(0, 200), hidden: document.hidden, answers, asked }); }"""


def make_home(base: Path, cases: int = CASES, names: tuple = (STUDY,)) -> Path:
    """Fundus images of 512 pixels where they are at hand, else small drawn ones; two scored runs per study."""
    source, folder = REAL / "idrid", base / "images"
    if source.is_dir():
        for part, count in (("train/normal", 12), ("test/normal", cases - cases // 2), ("test/abnormal", cases // 2)):
            (folder / part).mkdir(parents=True)
            for path in sorted((source / part).iterdir())[:count]:
                shutil.copy(path, folder / part)
        (folder / "test/mask").mkdir()
        for path in (folder / "test/abnormal").iterdir():
            shutil.copy(source / "test/mask" / f"{path.stem}.png", folder / "test/mask")
    else:
        draw_folder(folder, 12, cases - cases // 2, cases // 2)
    store = opening.open(str(base / "home"))
    for study in names:
        studies.import_study(store, study, folder)
        add_readings(store, study, "padim")
        add_readings(store, study, "lesion-head", seed=1)
    store.close()
    return base / "home"


def add_recording(home: Path, folder: Path, study: str = "film", frames: int = 40, peaks: tuple = (9, 30)) -> None:
    """The study `film`: one multi-frame DICOM whose score rises to a peak at two of its frames.

    The study `volume`: the same of single slices, in files that are not named in their order.
    """
    rng = np.random.default_rng(0)
    (folder / "train/normal").mkdir(parents=True)
    (folder / "test/normal").mkdir(parents=True)
    written = {}
    for i in range(4):
        write_dicom(folder / f"train/normal/{i}.dcm", rng.integers(0, 3000, (48, 56), np.uint16))
    if study == "volume":
        written = write_volume(folder / "test/normal", frames, shape=(48, 56))
    else:
        write_dicom(folder / "test/normal/film.dcm", rng.integers(0, 3000, (frames, 48, 56), np.uint16))
    number = {str(path): k for k, path in written.items()}
    store = opening.open(str(home))
    studies.import_study(store, study, folder)
    run = add_readings(store, study, "padim")
    cases = store.query("SELECT id, frame, path FROM cases WHERE study = ? AND split = 'test'", [study])
    assert len(cases) == frames
    with store.write() as db:
        for case in cases:
            at = number.get(case["path"], case["frame"])
            score = max(1 - 0.04 * abs(at - p) for p in peaks)
            db.execute(
                "UPDATE readings SET score = ?, score_roi = ?, percentile = ?, percentile_roi = ? "
                "WHERE run = ? AND case_id = ?",
                [score, score, 100 * score, 100 * score, run, case["id"]],
            )
    store.close()


@pytest.fixture(scope="session")
def made_home(tmp_path_factory):
    """The home as it is made. Nothing opens it again: it is only copied."""
    home = make_home(tmp_path_factory.mktemp("review"), names=(STUDY, UNREAD, SESSIONS, VEILED))
    add_recording(home, tmp_path_factory.mktemp("film"))
    add_recording(home, tmp_path_factory.mktemp("volume"), "volume")
    return home


@pytest.fixture(scope="package")
def review_home(made_home, tmp_path_factory):
    return Path(shutil.copytree(made_home, tmp_path_factory.mktemp("reviewed") / "home"))


@pytest.fixture(scope="package")
def review_server(review_home):
    server = Served(review_home)
    yield server
    server.stop()


@pytest.fixture
def page_url(review_server):
    return review_server.url


def enter(page, url, study=STUDY):
    page.goto(f"{url}?study={study}&tab=review")
    try:
        page.wait_for_function(f"{WIDGET}?.review?.picture", timeout=120_000)
    except Error as error:
        raise AssertionError(f"no case came on screen: {page.evaluate(REACHED)}") from error
    page.locator(".rv-display").evaluate("display => { display.open = true; }")


def come_back(page):
    """Another window had the focus, and this one has it again."""
    page.evaluate("for (const name of ['blur', 'focus']) dispatchEvent(new Event(name))")


def settle(page):
    page.evaluate(f"{WIDGET}.idle()")


def rows(home, sql, *params):
    with sqlite3.connect(home / "studio.sqlite") as db:
        return db.execute(sql, params).fetchall()


def packed(body: bytes) -> list[dict]:
    """The parts that a pack says it has."""
    length = int.from_bytes(body[:4], "little")
    parts = json.loads(body[4 : 4 + length])
    assert len(body) == 4 + length + sum(p["bytes"] for p in parts)
    return parts
