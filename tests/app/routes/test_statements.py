"""How many questions one request asks the database: few, and none of them twice."""

from __future__ import annotations

import sqlite3

import pytest

from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.review import people, sessions
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.studio.review.conftest import STUDY, add_readings, draw_folder

MOST = {"decide": 24, "step": 15, "list": 8}  # a decision also claims its limit, and seals what was decided
CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA", "--")


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """(store, run, server, statements): what any connection of the server is asked, with its values written in."""
    said: list[str] = []

    class Connection(sqlite3.Connection):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.set_trace_callback(said.append)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **options, factory=Connection))
    store = opening.open(str(tmp_path / "home"))
    studies.import_study(store, STUDY, draw_folder(tmp_path / "images"), copy=True)
    run = add_readings(store, STUDY, "padim")
    add_readings(store, STUDY, "nearest", seed=1)
    for name, role in {"ann": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
    yield store, run, whole_server(store), said
    store.close()


def _counted(said: list[str], act) -> list[str]:
    """Statements of our own code while `act` asks; of which it says that none was asked twice."""
    del said[:]
    answer = act()
    assert answer.status_code == 200 and answer.json()["ok"], answer.text
    asked = [line for line in said if not line.lstrip().upper().startswith(CONTROL)]
    # What a trigger does is reported under the statement that set it off, right behind that.
    ours = [line for line, last in zip(asked, ["", *asked], strict=False) if line != last or line.startswith("SELECT")]
    assert ours, "the trace sees nothing"
    twice = {line for line in ours if ours.count(line) > 1}
    assert not twice, twice
    return ours


@pytest.mark.parametrize("mode", ["open", "blind", "session", "neutral session"])
def test_a_request_asks_little_and_nothing_twice(traced, mode):
    store, run, server, said = traced
    if mode == "blind":
        sessions.set_blind(store, STUDY, True, "root")
    ann = visitor(server, "ann")
    if "session" in mode:
        body = {"study": STUDY, "blind": mode == "session", "neutral": True}
        assert ann.post("/api/reading/start", json=body).status_code == 200
    address = f"study={STUDY}&run={run}"
    for _ in range(2):  # connections are warm, and neutral names drawn
        rows = ann.get(f"/api/review/list?{address}").json()["rows"]
        ann.get(f"/api/review/step?{address}")
    most = dict.fromkeys(MOST, 0)

    def count(name: str, act) -> None:
        lines = _counted(said, act)
        most[name] = max(most[name], len(lines))
        assert len(lines) <= MOST[name], "\n".join(lines)

    for words in ("", "&sort=name&desc=0", "&decision=unread", "&flagged=1", "&text=a"):
        count("list", lambda words=words: ann.get(f"/api/review/list?{address}{words}"))
        count("step", lambda words=words: ann.get(f"/api/review/step?{address}{words}"))
    for row in rows:
        count("step", lambda row=row: ann.get(f"/api/review/step?{address}&case={row['id']}"))
        for n, word in enumerate(("normal", "abnormal")):
            body = {"case": row["id"], "decision": word, "run": run, "token": f"{row['id']} {n}",
                    "list": {"study": STUDY, "run": run, "sort": "percentile", "desc": 1}}  # fmt: skip
            count("decide", lambda body=body: ann.post("/api/review/decide", json=body))
    count("step", lambda: ann.get(f"/api/review/step?{address}"))
    print(mode, most)
