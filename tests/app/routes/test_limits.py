"""Each limit, asked by thirty threads at once, admits exactly as many as it says."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from app import context
from app.access.turns import Turns
from app.routes import errors
from app.routes._changes import Changes
from core.studio.db import opening
from core.studio.db.limits import LIMITS, TooMuch
from core.studio.ingest import studies
from core.studio.medmix import match
from core.studio.review import people
from core.studio.runs import records as runs
from tests.app.routes.clients import client_of
from tests.app.routes.every_route import SMALL
from tests.conftest import at_once, few
from tests.studio.clusters.conftest import snapshots
from tests.studio.review.conftest import STUDY, asks, draw_folder, save_mask

MOST = 5


class Home:
    """A home with 32 cases, and a client whose requests share one loop, as those to a server do."""

    def __init__(self, store, client):
        self.store, self.client = store, client
        self.cases = [row["id"] for row in store.query("SELECT id FROM cases ORDER BY id")]
        self.folder = Path(store.home.cache / "dropped")

    def post(self, path: str, **body) -> bool:
        return self.client.post(path, json=body).status_code == 200


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    store = opening.open(str(folder / "home"))
    studies.import_study(store, STUDY, draw_folder(folder / "images", 20), copy=True)
    people.add_reader(store, "ann", "a long password", "reader")
    with client_of(store) as client:
        yield Home(store, client)
    store.close()


@pytest.fixture
def home(made, no_worker):
    return made


def number(home: Home, case: int) -> int:
    return asks(home.store, case_id=case).names.number(case)


def training(home: Home):
    return lambda i: home.post("/api/training/start", study=STUDY, config=SMALL | {"seed": i}, detectors={})


def cluster_map(home: Home):
    run = runs.create_run(home.store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3, "medmix": {}})
    snapshots(runs.run_folder(home.store, run), 1)
    return lambda i: home.post("/api/clusters/maps", run=run, config={"method": "pca", "seed": i})


def owned(home: Home):
    ctx = context.Context(home=home.store.home, single_user=False, _store=home.store)

    def own(i: int) -> bool:
        with ctx.making("ann", "projection") as mine:
            mine([i])
        return True

    return own


def preset(home: Home):
    return lambda i: home.post("/api/medmix/presets", name=f"preset {i}", config={})


def version(home: Home):
    return lambda i: home.post("/api/medmix/presets", name="versions", config={"aspect": 1.5 + i / 100})


def search(home: Home):
    lesion = match.offered(home.store, STUDY)[0]["case"]
    return lambda i: home.post("/api/medmix/match", study=STUDY, cases=[lesion], seconds=10 + i)


def view(home: Home):
    return lambda i: home.post("/api/clusters/views", study=STUDY, name=f"view {i}", state={})


def token(home: Home):
    return lambda i: bool(people.make_token(home.store, "ann", f"token {i}"))


def file_of_upload(home: Home):
    drop = home.client.post("/api/study/drop").json()["drop"]
    return lambda i: home.client.put(f"/api/study/drop/{drop}?path={i}.png", content=b"x" * 100).status_code == 200


def draft(home: Home):
    cases = [number(home, case) for case in home.cases]
    home.store.execute("DELETE FROM mask_drafts")
    return lambda i: home.client.post(f"/api/review/draft/{cases[i]}", content=b"x" * 100).status_code == 200


def finding(home: Home):
    return lambda i: home.post("/api/review/finding", case=number(home, home.cases[-1]), label=f"label {i}")


def decision(home: Home):
    return lambda i: home.post("/api/review/decide", case=number(home, home.cases[-1]), decision="normal")


def mask(home: Home):
    case = home.cases[-1]
    row = home.store.first("SELECT width, height FROM cases WHERE id = ?", [case])

    def save(i: int) -> bool:
        drawn = np.zeros((row["height"], row["width"]), np.uint8)
        drawn[i] = 1
        return bool(save_mask(home.store, case, drawn, "ann"))

    return save


def stream(home: Home):
    changes, left = Changes(home.store), threading.Barrier(31)
    threading.Thread(target=left.wait, daemon=True).start()

    def follow(i: int) -> bool:
        try:
            with changes.counted("ann"):
                left.wait(60)
        except TooMuch:
            left.wait(60)
            raise
        return True

    return follow


def turn(home: Home):
    turns = Turns()
    return lambda i: bool(turns.ask("ann", 1))


TRIES = {
    "turn": (turn, 1),
    "search": (search, 1),
    "run": (training, 1),
    "map": (cluster_map, 1),
    "projection": (owned, 1),
    "view": (view, 1),
    "preset": (preset, 1),
    "preset version": (version, 1),
    "token": (token, 1),
    "upload files": (file_of_upload, 1),
    "upload bytes": (file_of_upload, 100),
    "draft": (draft, 1),
    "draft bytes": (draft, 100),
    "finding": (finding, 1),
    "review": (decision, 1),
    "mask": (mask, 1),
    "stream": (stream, 1),
}
ROOM = {"upload", "sign-in"}  # the oldest make room: below
MEASURED = {"run bytes", "fault log"}  # files that grow: tests/app/routes/test_bin.py, and below


def test_every_limit_is_tried():
    assert set(TRIES) | ROOM | MEASURED == set(LIMITS)


def accepted(act):
    def asked(i: int) -> bool:
        try:
            return act(i)
        except TooMuch:
            return False

    return asked


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIES)
def test_thirty_threads_find_as_many_as_a_limit_allows(home, monkeypatch, name):
    attempt, each = TRIES[name]
    there = {"preset version": "SELECT count(*) AS n FROM presets WHERE reader = 'ann'"}
    held = home.store.first(there[name])["n"] if name in there else 0
    kind = home.store.first("SELECT count(*) AS n FROM owners WHERE kind = ? AND reader = 'ann'", [name])["n"]
    few(monkeypatch, name, (MOST + held + kind) * each)
    answers = at_once(accepted(attempt(home)))
    assert sum(answers) == MOST, f"{sum(answers)} of 30, {MOST} are allowed"


@pytest.mark.slow
def test_the_oldest_uploads_and_sessions_make_room(home, monkeypatch):
    for name in ROOM:
        few(monkeypatch, name, MOST)
    at_once(lambda i: home.post("/api/study/drop"))
    assert len(list(home.folder.iterdir())) == MOST
    at_once(lambda i: people.start_sign_in(home.store, "ann", 1))
    assert home.store.first("SELECT count(*) AS n FROM sessions")["n"] == MOST


@pytest.mark.slow
def test_a_refused_file_makes_no_folder(home, monkeypatch):
    few(monkeypatch, "upload files", 2 * MOST)
    drop = home.client.post("/api/study/drop").json()["drop"]
    put = f"/api/study/drop/{drop}?path="
    answers = at_once(lambda i: home.client.put(f"{put}{i}/a.png", content=b"x").status_code)
    assert answers.count(200) == MOST
    assert len(list((home.folder / drop).rglob("*"))) == 2 * MOST


def test_the_log_of_faults_has_an_end(tmp_path, monkeypatch):
    few(monkeypatch, "fault log", 2000)
    at_once(lambda i: [errors.log_fault(tmp_path, f"GET /{i}", ValueError("x")) for _ in range(20)])
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 2 and max(sizes) < 3000
