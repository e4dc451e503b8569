"""Planted lesions by the routes: switched on, agreed to, read without a sign of which they are, and revealed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from app import routes
from app.routes import reviews
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.ingest.originals import image_of
from core.studio.jobs import queue
from core.studio.jobs.steps import STEPS, Work
from core.studio.review import people
from tests.app.routes.clients import visitor, whole_server
from tests.app.routes.every_route import encoder_with_fit
from tests.studio.review.conftest import STUDY, draw_folder

pytestmark = pytest.mark.long

KEPT_OF_A_CASE = ("case_tags", "reviews", "lesion_masks", "findings", "mask_drafts", "events")
DIFFERS = ("etag", "content-length", "x-map-range", "x-map-threshold")  # headers that follow from an image


def shape(value):
    """What an answer looks like, without its values; of words, and of what is null, the value itself."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key not in ("words", "percentile", "flagged")}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return value if isinstance(value, bool | None) else type(value).__name__


def looks(answer) -> tuple:
    """Status, headers and the outline of what an answer holds."""
    heads = {k: v for k, v in answer.headers.items() if k not in DIFFERS}
    kind = answer.headers["content-type"]
    if kind.startswith("image/"):
        return answer.status_code, heads, cv2.imdecode(np.frombuffer(answer.content, np.uint8), 1).shape
    if kind == "application/json":
        return answer.status_code, heads, shape(answer.json())
    return answer.status_code, heads, len(answer.content) if "pack" not in str(answer.url) else None


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    """(store, clients by name): a scored study with ann, who reads, and root, who administers."""
    monkeypatch.setattr(queue, "ensure_worker", lambda store: [])
    store = opening.open(str(tmp_path / "home"))
    studies.import_study(store, STUDY, draw_folder(tmp_path / "images", 24, 5, 5), copy=True)
    held = "SELECT id FROM cases WHERE study = ? AND split = 'train' ORDER BY id LIMIT 10"
    store.execute(f"UPDATE cases SET split = 'holdout' WHERE id IN ({held})", [STUDY])
    encoder_with_fit(store)
    for name, role in (("ann", "reader"), ("root", "administrator")):
        people.add_reader(store, name, "long enough", role)
    server = whole_server(store)
    yield store, {name: visitor(server, name) for name in ("ann", "root")}
    store.close()


def work(store) -> None:
    """What a worker does with the jobs that wait."""
    for job in store.query("SELECT id, chain FROM jobs WHERE status = 'queued'"):
        for one in json.loads(job["chain"]):
            STEPS[one["step"]](Work(store, one["run"], {**one["args"], "device": "cpu"}))
        store.execute("UPDATE jobs SET status = 'done' WHERE id = ?", [job["id"]])


def test_a_session_with_planted_lesions(clinic):
    store, by = clinic
    asked = {"study": STUDY, "per_hundred": 40, "seed": 1}
    assert by["ann"].post("/api/reading/planted", json=asked).status_code == 403
    answer = by["root"].post("/api/reading/planted", json=asked).json()
    assert answer["job"] and (answer["ready"], answer["seed"], answer["agreed"]) == (0, 1, None)
    work(store)
    state = by["ann"].get(f"/api/reading?study={STUDY}").json()["planted"]
    assert state["ready"] >= 6 and state["per_hundred"] == 40 and (state["seed"], state["agreed"]) == (None, None)
    assert by["ann"].post("/api/reading/start", json={"study": STUDY}).json()["cases"] == 10
    assert store.first("SELECT count(*) AS n FROM planted_cases")["n"] == 0, "without agreement nothing is mixed in"
    assert by["ann"].post("/api/reading/end").json()["ok"]
    assert by["ann"].post("/api/reading/agree", json={"study": STUDY, "agreed": True}).json()["agreed"]
    assert by["ann"].post("/api/reading/start", json={"study": STUDY, "blind": False}).json()["cases"] == 10
    started = by["ann"].post("/api/reading/start", json={"study": STUDY}).json()
    assert started["cases"] == 14
    ann, session = by["ann"], started["session"]
    opened = ann.get(f"/api/review/open?study={STUDY}").json()
    assert opened["trial"] == {"rated": False, "marks": False, "planted": True} and len(opened["runs"]) == 1
    run = opened["runs"][0]["id"]
    planted = {r["case_id"] for r in store.query("SELECT case_id FROM planted_cases WHERE session = ?", [session])}
    order = store.query("SELECT case_id FROM reading_session_cases WHERE session = ? ORDER BY position", [session])
    listed = ann.get(f"/api/review/list?study={STUDY}&run={run}").json()["rows"]
    assert len(planted) == 4 and len({tuple(sorted(row)) for row in listed}) == 1
    number = {row["case_id"]: seen["id"] for row, seen in zip(order, listed, strict=True)}
    plain = next(case for case in number if case not in planted)
    paths = sorted(r.path for r in routes.every_route() if "GET" in r.methods and "{case_id}" in r.path)
    assert len(paths) > 10

    def ask_all() -> None:
        for path in paths:
            rows = [ann.get(f"{path.replace('{case_id}', str(number[c]))}?run={run}") for c in [plain, *planted]]
            assert len({repr(looks(row)) for row in rows}) == 1, (path, [looks(row) for row in rows])
        bodies = [
            ("finding", {"case": 0, "label": "polyp", "box": [1, 1, 5, 5]}),
            ("tag", {"study": STUDY, "cases": [0], "tag": "odd"}),
            ("threshold", {"case": 0, "from": 0.5, "to": 0.6}), ("finished/0", {"finished": True}),
            ("segment/0", {"run": run, "clicks": []}), ("snap/0", {"run": run, "spot": [5, 5], "level": 0.5}),
        ]  # fmt: skip
        for name, body in bodies:
            rows = []
            for case in [plain, *planted]:
                named = {"case": number[case], "cases": [number[case]]}
                own = {key: named.get(key, value) for key, value in body.items()}
                rows.append(ann.post(f"/api/review/{name.replace('/0', f'/{number[case]}')}", json=own))
            assert len({repr(looks(row)) for row in rows}) == 1, (name, [row.text for row in rows])
            assert rows[0].status_code == (200 if name == "threshold" else 403), (name, rows[0].text)

    ask_all()
    for decision in ("normal", "abnormal"):
        for case in [plain, *planted]:
            body = {"case": number[case], "decision": decision, "run": run, "list": {"study": STUDY, "run": run}}
            answer = ann.post("/api/review/decide", json=body).json()
            assert (answer["review"], answer["stage"]) == (0, "first" if decision == "normal" else "second")
            if decision == "normal":
                assert shape(answer["next"]) == shape(ann.get(f"/api/review/case/{number[case]}").json()["case"])
        ask_all()
    assert ann.post("/api/review/undo", json={"study": STUDY}).status_code == 400
    for case in planted:
        row = store.first("SELECT * FROM cases WHERE id = ?", [case])
        png = np.frombuffer(ann.get(f"/api/case/{number[case]}/image.png").content, np.uint8)
        seen = cv2.imdecode(png, 1)[..., ::-1]
        box = store.first("SELECT * FROM planted_lesions WHERE case_id = ?", [case])
        ys, xs = np.nonzero((seen != image_of(row)).any(2))
        assert (xs.min(), ys.min()) == (box["x"], box["y"])
    for name in KEPT_OF_A_CASE:
        wrong = f"SELECT 1 FROM {name} WHERE case_id IN (SELECT case_id FROM planted_cases)"
        assert not store.query(wrong), name
    assert ann.get(f"/api/reading/{session}/summary").status_code == 400, "not before the end"
    assert ann.post("/api/reading/end").json()["ok"]
    for who in by.values():
        for kind in ("summary", "report"):
            shown = who.get(f"/api/reading/{session}/{kind}").json()
            assert (shown["cases"], shown["read"]) == (10, 1)
            lesions = shown["planted"]["lesions"]
            assert len(lesions) == 4 and all((r["first"], r["found"]) == ("normal", True) for r in lesions)
            assert sum(row["last"]["hits"] for row in shown["planted"]["table"]) == 4
    assert by["ann"].post("/api/reading/agree", json={"study": STUDY, "agreed": False}).json()["agreed"] is None
    kinds = [e["kind"] for e in store.query("SELECT kind FROM events WHERE kind LIKE 'planted%' ORDER BY id")]
    assert kinds == ["planted", "planted-agreed", "planted-withdrawn"]
    assert by["root"].post("/api/reading/planted", json={"study": STUDY, "per_hundred": 0}).json()["per_hundred"] == 0


@pytest.fixture
def mixed_in(clinic):
    """`clinic`, whose ann agreed to the lesions that are planted."""
    store, by = clinic
    by["root"].post("/api/reading/planted", json={"study": STUDY, "per_hundred": 50, "seed": 1})
    work(store)
    by["ann"].post("/api/reading/agree", json={"study": STUDY, "agreed": True})
    return store, by["ann"], by["root"]


def begun(store, ann, **asked) -> tuple[str, dict[int, int], set[int]]:
    """Of a blind session that ann starts: its run, the numbers of its cases by their own, those with a lesion."""
    session = ann.post("/api/reading/start", json={"study": STUDY, **asked}).json()["session"]
    order = store.query("SELECT case_id FROM reading_session_cases WHERE session = ? ORDER BY position", [session])
    rows = ann.get(f"/api/review/list?study={STUDY}").json()["rows"]
    planted = {r["case_id"] for r in store.query("SELECT case_id FROM planted_cases WHERE session = ?", [session])}
    run = ann.get(f"/api/review/open?study={STUDY}").json()["runs"][0]["id"]
    return run, {row["case_id"]: seen["id"] for row, seen in zip(order, rows, strict=True)}, planted


def decided(ann, run: str, numbers: dict[int, int]) -> dict[int, dict]:
    """What the run says of each case, once ann has decided on it."""
    said = {}
    for case, number in numbers.items():
        body = {"case": number, "decision": "normal", "run": run, "list": {"study": STUDY, "run": run}}
        said[case] = ann.post("/api/review/decide", json=body).json()["next"]["readings"][run]
    return said


def test_what_was_looked_at_in_stored_images_alone_is_said_of_none(mixed_in):
    store, ann, root = mixed_in
    steady = '{"flagged": [true, true], "percentile": [97, 99], "sd": 0.1, "spread": 0.1}'
    store.execute("UPDATE readings SET extra = json_set(extra, '$.steady', json(?)), created = 'then'", [steady])
    run, numbers, planted = begun(store, ann)
    assert planted and len(numbers) > len(planted)
    said = decided(ann, run, numbers)
    assert {repr(said[case]["steady"]) for case in numbers} == {"None"}
    assert {type(said[case]["flagged"]) for case in numbers} == {int}
    tags = [ann.get(f"/api/case/{number}/heat?run={run}").headers["etag"].split("-")[-2] for number in numbers.values()]
    assert len(set(tags)) == len(tags), "which cases were scored together would tell those that were not"


def test_a_decision_takes_whole_steps_of_time_whatever_it_is_of(mixed_in, monkeypatch):
    store, ann, root = mixed_in
    slept: list[float] = []
    clock = iter(np.cumsum([0.0, 0.012, 0.1, 0.013, 0.1, 0.071]))
    run, numbers, planted = begun(store, ann)
    monkeypatch.setattr(reviews, "time", SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=slept.append))
    chosen = [next(case for case in numbers if case not in planted), *[*planted][:2]]
    decided(ann, run, {case: numbers[case] for case in chosen})
    assert slept == pytest.approx([0.038, 0.037, 0.029]), "12, 13 and 71 ms become 50, 50 and 100"


@pytest.mark.parametrize("choice", ["all", "flagged", "against"])
def test_flags_follow_the_point_and_no_list_holds_what_is_not_of_its_kind(mixed_in, choice):
    store, ann, root = mixed_in
    scores = [r["s"] for r in store.query("SELECT score_roi AS s FROM readings r JOIN cases c ON c.id = r.case_id "
                                          "WHERE c.split = 'test' ORDER BY s")]  # fmt: skip
    run = store.first("SELECT DISTINCT run FROM readings")["run"]
    point = {"run": run, "source": "dragged", "threshold": (scores[3] + scores[4]) / 2}
    assert root.post(f"/api/results/{STUDY}/point", json=point).status_code == 200
    if choice == "against":
        rows = ann.get(f"/api/review/list?study={STUDY}&run={run}&flagged=1").json()["rows"]
        for row in rows:
            ann.post("/api/review/decide", json={"case": row["id"], "decision": "normal", "run": run})
    run, numbers, planted = begun(store, ann, choice=choice)
    said = decided(ann, run, numbers)
    for case, reading in said.items():
        assert reading["flagged"] == (reading["score"] > point["threshold"]), case in planted
    if choice == "flagged":
        assert all(reading["flagged"] for reading in said.values())
    assert bool(planted) == (choice != "against")
