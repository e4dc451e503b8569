"""What reaches the browser of a blind reader: nothing in numbers, names, hashes or cursors leads to a case's label."""

from __future__ import annotations

import json
import re

import pytest

from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.review import people, sessions
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.studio.review.conftest import STUDY, add_readings, draw_folder

FIRST = 90_000_001  # the numbers of the study's cases begin here, so that they are found in any answer


@pytest.fixture
def reading(tmp_path):
    """(store, run, server) of a study that ann and ben read blind; root administers."""
    store = opening.open(str(tmp_path / "home"))
    store.execute("INSERT INTO studies (id, name, created) VALUES ('before', 'before', '')")
    store.execute(
        'INSERT INTO cases (id, study, name, path, split, label, "row", added) '
        "VALUES (?, 'before', 'x', '/nowhere', 'test', 'unknown', 0, '')",
        [FIRST - 1],
    )
    studies.import_study(store, STUDY, draw_folder(tmp_path / "images"), copy=True)
    run = add_readings(store, STUDY, "padim")
    for name, role in {"ann": "reader", "ben": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
    sessions.set_blind(store, STUDY, True, "root")
    yield store, run, whole_server(store)
    store.close()


class Watched:
    """A reader's browser; everything that it is sent, headers and bodies, is kept in `seen`."""

    def __init__(self, server, name: str):
        self.client, self.seen = visitor(server, name), []

    def ask(self, path: str, body: dict | None = None, status: int = 200):
        method = "GET" if body is None else "POST"
        answer = self.client.request(method, f"/api/{path}", json=body)
        assert answer.status_code == status, answer.text[:300]
        self.seen.append(f"{path.split('?')[0] if status == 200 else ''} {answer.headers} ")
        self.seen[-1] += answer.content.decode("latin-1")
        return answer

    def rows(self) -> list[dict]:
        found, cursor = [], ""
        while cursor is not None:
            page = self.ask(f"review/list?study={STUDY}&limit=5&cursor={cursor}").json()
            found += page["rows"]
            cursor = page["cursor"] and json.dumps(page["cursor"])
        return found


@pytest.mark.long
def test_reading_all_cases_blind_reveals_none(reading):
    store, run, server = reading
    ann = Watched(server, "ann")
    rows = ann.rows()
    assert len(rows) == 12 and len({r["id"] for r in rows}) == 12
    ann.ask(f"review/open?study={STUDY}")
    step = ann.ask(f"review/step?study={STUDY}&run={run}").json()
    assert step["case"]["id"] == rows[0]["id"] and [a["id"] for a in step["ahead"]] == [r["id"] for r in rows[1:4]]
    for row in rows:
        case = ann.ask(f"review/case/{row['id']}?study={STUDY}").json()["case"]
        assert case["name"] == row["name"] and case["v"] == row["v"]
        for path in ("image.png", "thumb.png", "pack", "roi.bits"):
            ann.ask(f"case/{row['id']}/{path}?v={row['v']}&run={run}")
        body = {"case": row["id"], "decision": "normal", "run": run, "list": {"study": STUDY, "run": run}}
        done = ann.ask("review/decide", body).json()
        assert done["case"] == row["id"] == done["next"]["id"] and not done["next"]["blind"]
        ann.ask(f"review/timeline/{row['id']}?run={run}")
        ann.ask("review/threshold", {"case": row["id"], "run": run, "from": 0.5, "to": 0.6})
        ann.ask(f"case/{row['id']}/pack?run={run}")
        again = ann.ask("review/decide", body).json()  # the second decision leads to the next case
        assert again["stage"] == "second"
    last = ann.ask("review/undo", {"study": STUDY}).json()
    assert last["case"] == rows[-1]["id"] == last["next"]["id"]
    sent = "\n".join(ann.seen)
    assert not re.findall(r"(?<!\d)900000\d\d(?!\d)", sent), "no case's own number"
    for case in store.query("SELECT name, sha256, path FROM cases WHERE study = ?", [STUDY]):
        assert case["name"] not in sent and case["sha256"][:8] not in sent and case["path"] not in sent
    events = store.query("SELECT DISTINCT case_id FROM events WHERE kind = 'decision'")
    labels = store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [STUDY])
    assert {e["case_id"] for e in events} == {c["id"] for c in labels}, "what is stored has the cases' own numbers"


@pytest.mark.slow
def test_own_numbers_are_no_way_in_for_a_blind_reader(reading):
    store, run, server = reading
    case = store.one("SELECT id FROM cases WHERE study = ? AND split = 'test'", [STUDY])["id"]
    ann = Watched(server, "ann")
    absent = ann.ask(f"case/{FIRST + 500}/image.png", status=400).text.replace(str(FIRST + 500), "N")
    for path in ("image.png", "thumb.png", "pack", "roi.bits", f"heat?run={run}", "mask.bits"):
        assert ann.ask(f"case/{case}/{path}", status=400).text.replace(str(case), "N") == absent
    ann.ask(f"review/case/{case}?study={STUDY}", status=400)
    ann.ask("review/decide", {"case": case, "decision": "normal"}, status=400)
    assert store.query("SELECT 1 FROM reviews") == []
    root = Watched(server, "root")
    assert root.ask(f"case/{case}/image.png").status_code == 200


@pytest.mark.slow
def test_names_differ_between_readers(reading):
    _, _, server = reading
    first, other = (Watched(server, name) for name in ("ann", "ben"))
    names = [[(r["id"], r["name"], r["v"]) for r in who.rows()] for who in (first, other)]
    assert not set(names[0]) & set(names[1])
    assert [(r["id"], r["name"], r["v"]) for r in first.rows()] == names[0]
    other.ask("review/decide", {"case": names[0][0][0], "decision": "normal"}, status=400)


def test_the_list_turns_its_pages_from_any_place(reading):
    _, _, server = reading
    ann = Watched(server, "ann")
    whole = [r["id"] for r in ann.rows()]
    assert [r["id"] for r in ann.ask(f"review/list?study={STUDY}&at=7").json()["rows"]] == whole[7:]
    step = ann.ask(f"review/step?study={STUDY}&case={whole[5]}").json()
    assert step["case"]["id"] == whole[6]
    back = ann.ask(f"review/step?study={STUDY}&case={whole[5]}&back=1").json()
    assert back["case"]["id"] == whole[4]


def test_a_session_without_a_case_is_refused_and_the_open_one_goes_on(reading):
    store, _, server = reading
    root = visitor(server, "root")
    none = {"study": STUDY, "choice": "assigned"}
    refused = root.post("/api/reading/start", json=none)
    assert refused.status_code == 400 and "no case of that kind" in refused.json()["error"]
    assert "open session" not in refused.json()["error"]
    begun = root.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 3}).json()
    before = store.first("SELECT count(*) AS n FROM events")["n"]
    refused = root.post("/api/reading/start", json=none)
    assert refused.status_code == 400 and "Your open session continues." in refused.json()["error"]
    held = sessions.open_session(store, "root")
    assert (
        held is not None
        and held["id"] == begun["session"]
        and store.first("SELECT count(*) AS n FROM events")["n"] == before
    )
    again = root.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 2}).json()
    assert again["cases"] == 2 and sessions.open_session(store, "root")["id"] == again["session"]


@pytest.mark.slow
def test_the_report_of_a_session_is_its_readers_and_administrators_and_tells_nothing_while_reading_is_blind(
    reading,
):
    store, run, server = reading
    ann, ben, root = (visitor(server, name) for name in ("ann", "ben", "root"))
    number = ann.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 4}).json()["session"]
    path = f"/api/reading/{number}/report"
    listed = ann.get(f"/api/review/list?study={STUDY}").json()["rows"]
    for case, words in zip(listed, (["normal"], ["normal", "abnormal"], ["unsure"]), strict=False):
        for word in words:
            ann.post("/api/review/decide", json={"case": case["id"], "decision": word, "seconds": 2.0})
    refused = ann.get(path)
    assert refused.status_code == 400 and "while it is open" in refused.json()["error"]
    assert root.get(path).status_code == 400, "nor for administrators before its end"
    ann.post("/api/reading/end")

    own = ann.get(path).json()
    assert (own["study"], own["reader"], own["which"], own["run"]["id"]) == (STUDY, "ann", "All test cases", run)
    assert [r["name"] for r in own["rows"]] == [r["name"] for r in listed], "the names that were on screen"
    assert [(r["first"], r["decision"], r["seconds"]) for r in own["rows"]] == [
        ("normal", "normal", 2.0), ("normal", "abnormal", 4.0), ("unsure", "unsure", 2.0), (None, None, None)
    ]  # fmt: skip
    untold = [own["point"], own["detector"], *(r[k] for r in own["rows"] for k in ("percentile", "flagged"))]
    assert set(untold) == {None} and own["agreement"] == [], "the study goes on being read blind"

    for part in ("report", "summary"):
        assert ben.get(f"/api/reading/{number}/{part}").json()["error"] == f"You have no reading session {number}."
    theirs = root.get(path).json()
    assert theirs["reader"] == "ann" and theirs["point"] and theirs["rows"][0]["percentile"] is not None
    names = {c["name"] for c in store.query("SELECT name FROM cases")}
    assert not names & {r["name"] for r in theirs["rows"]}, "neutral names in print too"
    over = {name: client.get(f"/api/reading?study={STUDY}").json()["over"] for name, client in
            {"ann": ann, "ben": ben, "root": root}.items()}  # fmt: skip
    assert [[s["id"] for s in over[name]] for name in ("ann", "ben", "root")] == [[number], [], [number]]

    sessions.set_blind(store, STUDY, False, "root")
    assert ann.get(path).json()["point"]["sensitivity"]["n"] + ann.get(path).json()["point"]["specificity"]["n"] == 2
    ann.post("/api/reading/start", json={"study": STUDY, "blind": True})
    assert ann.get(path).json()["point"] is None, "a new blind session closes it again"
