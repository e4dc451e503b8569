"""A request speaks of one study: what is of another one, or of none, is refused with a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from core.studio.review import decisions
from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY, asks, fill, save_mask


@pytest.mark.slow
@pytest.mark.parametrize("room", ["list", "step", "overview", "place", "counts"])
def test_a_list_of_another_study_shows_no_row_of_a_blind_studys_run(reading, room):  # noqa: F811
    store, run, server = reading
    fill(store, 5, "open")
    ann = visitor(server, "ann")
    hidden = {c["name"] for c in store.query("SELECT name FROM cases WHERE study = ?", [STUDY])}
    for study in ("open", "", "no such study", "before"):
        for more in ("", "&sort=score&flagged=1", "&label=abnormal&split=all", "&score=0.5", "&unread=1"):
            answer = ann.get(f"/api/review/{room}?study={study}&run={run}{more}")
            assert answer.status_code == 400, (study, more, answer.text[:200])
            assert set(answer.json()) == {"ok", "error"} and not any(name in answer.text for name in hidden)
    assert ann.get(f"/api/review/{room}?study=open&run=r").status_code == 200
    assert ann.post(f"/api/export/open/csv?run={run}").json()["error"].startswith(f"open has no run '{run}'")
    assert ann.get(f"/api/review/{room}?study={STUDY}&run={run}").status_code == 200


def _kept(store) -> list:
    tables = ("reviews", "events", "lesion_masks", "findings", "answered", "undone", "settings", "assignments")
    return [store.query(f"SELECT * FROM {table}") for table in (*tables, "current_reviews", "case_tags", "mask_drafts")]


@pytest.mark.slow
def test_what_is_answered_as_a_mistake_is_not_stored(reading):  # noqa: F811
    store, run, server = reading
    fill(store, 5, "open")
    cleo = visitor(server, "root")
    case, other = (store.first(f"SELECT id FROM cases WHERE study = '{s}'")["id"] for s in (STUDY, "open"))
    scored = store.first("SELECT case_id AS id FROM readings WHERE run = ?", [run])["id"]
    size = store.first("SELECT width * height / 8 AS n FROM cases WHERE id = ?", [scored])["n"]
    said = {"case": case, "decision": "normal"}
    wrong = [
        ("decide", said | {"list": {"sort": []}}),
        ("decide", said | {"list": {"sort": "best"}}),
        ("decide", said | {"list": {"sort": "blind"}}),
        ("decide", said | {"list": {"decision": {"a": 1}}}),
        ("decide", said | {"list": {"desc": [1]}}),
        ("decide", said | {"list": {"flagged": "maybe"}}),
        ("decide", said | {"list": {"study": ["open"]}}),
        ("decide", said | {"list": {"run": 7}}),
        ("decide", said | {"list": {"study": "open"}}),
        ("decide", said | {"list": {"run": "r"}}),
        ("decide", said | {"run": "r"}),
        ("decide", said | {"run": "no run"}),
        ("undo", {"study": STUDY, "list": {"study": "open"}}),
        ("undo", {"study": "no such"}),
        ("redo", {"study": STUDY, "list": {"sort": 3}}),
        ("threshold", {"case": case, "run": "r", "from": 0.1, "to": 0.2}),
        ("threshold", {"case": case, "run": "no run", "to": 0.2}),
        ("threshold", {"case": case, "run": run, "to": 1e301}),
        ("tag", {"study": "no such", "cases": [case], "tag": "odd"}),
        ("tag", {"study": STUDY, "cases": [case, other], "tag": "odd"}),
        (f"segment/{case}", {"run": "r", "clicks": [[1, 1, True]]}),
        (f"mask/{scored}?source=run&run=r&threshold=0.4", bytes(size)),
        (f"mask/{scored}?source=run&run={run}&threshold=-1e300", bytes(size)),
        (f"mask/{scored}?source=nowhere", bytes(size)),
    ]
    cleo.post("/api/review/decide", json={"case": case, "decision": "unsure"})  # there is something to undo
    before = _kept(store)
    for path, body in wrong:
        given = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = cleo.post(f"/api/review/{path}", **given)
        assert answer.status_code in (400, 422), (path, body, answer.text[:200])
        assert not answer.json()["ok"] and _kept(store) == before, (path, body)
    kept = cleo.post(f"/api/review/mask/{scored}?source=run&run={run}&threshold=0.4", content=bytes(size))
    assert kept.status_code == 200 and kept.json()["masks"][0]["threshold"] == 0.4


def test_a_decision_sent_twice_is_one_row_whatever_its_first_answer_was(reading):  # noqa: F811
    store, run, server = reading
    root = visitor(server, "root")
    case = store.first("SELECT id FROM cases WHERE study = ?", [STUDY])["id"]
    body = {"case": case, "decision": "normal", "token": "once", "list": {"study": STUDY, "run": run, "sort": ["x"]}}
    assert root.post("/api/review/decide", json=body).status_code == 400
    good = body | {"list": {"study": STUDY, "run": run, "sort": "name", "desc": 0}}
    for _ in range(2):
        assert root.post("/api/review/decide", json=good).status_code == 200
    assert store.first("SELECT count(*) AS n FROM reviews")["n"] == 1


@pytest.mark.slow
def test_after_a_commitment_another_studys_list_shows_neither_number_nor_hash(reading):  # noqa: F811
    store, run, server = reading
    fill(store, 5, "open")
    ann = visitor(server, "ann")
    row = ann.get(f"/api/review/list?study={STUDY}").json()["rows"][0]
    done = ann.post("/api/review/decide", json={"case": row["id"], "decision": "normal"})
    assert done.status_code == 200 and done.json()["review"] == 0
    assert [r["id"] for r in done.json()["next"]["mine"]] == [1], "its number tells not how many others there are"
    again = {"case": row["id"], "decision": "abnormal", "list": {"study": "open", "run": "r"}}
    for path, body in (("decide", again), ("undo", {"study": STUDY, "list": {"study": "open"}})):
        answer = ann.post(f"/api/review/{path}", json=body)
        assert answer.status_code == 400 and set(answer.json()) == {"ok", "error"}, answer.text
    back = ann.post("/api/review/decide", json=again | {"list": {"study": STUDY, "run": run}})
    assert back.status_code == 200


@pytest.mark.slow
def test_other_peoples_findings_and_masks_are_withheld_as_their_decisions_are(reading):  # noqa: F811
    store, run, server = reading
    case = store.first("SELECT * FROM cases WHERE label = 'normal' AND split = 'test'")
    decisions.add_finding(asks(store, "ben", case_id=case["id"]), "polyp", "seen by ben")
    drawn = np.ones((case["height"], case["width"]), np.uint8)
    saved = save_mask(store, case["id"], drawn, "ben")
    ann, root = visitor(server, "ann"), visitor(server, "root")
    known = next(
        r["id"] for r in ann.get(f"/api/review/list?study={STUDY}").json()["rows"]
        if _case(store, r["id"]) == case["id"]
    )  # fmt: skip
    # Where the lesion is, is said before the score is shown.
    placed = ann.post("/api/review/finding", json={"case": known, "label": "early", "box": [1, 1, 5, 5]}).json()
    hidden = ann.get(f"/api/review/case/{known}?study={STUDY}&run={run}").json()["case"]
    assert [f["label"] for f in placed["findings"]] == [f["label"] for f in hidden["findings"]] == ["early"]
    assert hidden["blind"] and "readings" not in hidden and "masks" not in hidden
    assert ann.delete(f"/api/review/finding/{placed['findings'][0]['id']}").json()["findings"] == []
    done = ann.post("/api/review/decide", json={"case": known, "decision": "normal", "run": run})
    detail = done.json()["next"]
    assert detail["findings"] == [] and detail["masks"] == [] and "others" not in detail
    assert ann.get(f"/api/case/{known}/mask.bits?id={saved['mask']}").status_code == 400
    none = ann.post("/api/review/restore/7")  # a number that is none is answered alike
    theirs = ann.post(f"/api/review/restore/{saved['mask']}")
    assert theirs.status_code == none.status_code == 403 and theirs.content == none.content
    assert (
        ann.post("/api/review/finding", json={"case": known, "label": "mine"}).json()["findings"][0]["label"] == "mine"
    )
    open_ = root.get(f"/api/review/case/{case['id']}").json()["case"]
    assert {f["reader"] for f in open_["findings"]} == {"ann", "ben"} and len(open_["masks"]) == 1


def _case(store, number: int) -> int:
    return asks(store, "ann", number=number).asked_case["id"]
