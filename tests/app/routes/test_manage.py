"""What only an administrator may do is refused on the server, whatever the page shows; the audit trail among it."""

import pytest

from core.studio.bundle import export_bundle
from core.studio.db import audit
from core.studio.incoming import watch
from core.studio.ingest import roots
from core.studio.review import decisions, people
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import (  # noqa: F401
    STUDY,
    bare,
    decide,
    room,
)

READERS = {"ann": "reader", "ben": "reader", "jo": "adjudicator", "root": "administrator"}


@pytest.fixture
def asked(room):  # noqa: F811
    store, run = room
    for name, role in READERS.items():
        people.add_reader(store, name, "a long password", role)
    return store, run, client_of(store)


@pytest.mark.slow
def test_readers_and_adjudicators_are_refused(asked, tmp_path):
    store, _, client = asked
    calls = [
        ("GET", f"/api/manage/{STUDY}", None),
        ("POST", f"/api/manage/{STUDY}/watch", {"folder": str(tmp_path)}),
        ("POST", f"/api/manage/{STUDY}/labels", {"labels": ["mine"]}),
        ("POST", f"/api/manage/{STUDY}/assign", {"readers": ["ann"]}),
        ("POST", f"/api/manage/{STUDY}/unassign", {"reader": "ben"}),
        ("POST", "/api/review/settings", {"study": STUDY, "labels": ["mine"]}),
        ("POST", f"/api/study/{STUDY}/add", {"path": str(tmp_path)}),
        ("POST", "/api/study/import", {"name": "x", "folder": str(tmp_path)}),
        ("DELETE", f"/api/study/{STUDY}", None),
        ("POST", "/api/export/bundle", {}),
    ]
    before = len(audit.trail(store, limit=1000))
    for who in ("ann", "jo"):
        for method, path, body in calls:
            answer = client.request(method, path, json=body, headers={"x-user": who})
            assert answer.status_code == 403 and "Only an administrator" in answer.json()["error"], (who, path)
        assert client.get("/api/manage", headers={"x-user": who}).json()["administer"] is False
    assert len(audit.trail(store, limit=1000)) == before and watch.get_watch(store, STUDY) is None
    assert client.get("/api/manage", headers={"x-user": "root"}).json()["administer"] is True
    assert client_of(store, single_user=True).get(f"/api/manage/{STUDY}").status_code == 200


@pytest.mark.slow
def test_where_a_studys_files_lie_administrators_see_alone(asked):
    store, _, client = asked
    folder = store.one("SELECT folder FROM studies WHERE id = ?", [STUDY])["folder"]
    seen = {who: client.get(f"/api/study/{STUDY}/overview", headers={"x-user": who}) for who in ("ann", "jo", "root")}
    assert folder and seen["root"].json()["study"]["folder"] == folder
    assert not any(folder in seen[who].text or seen[who].json()["study"]["folder"] for who in ("ann", "jo"))


@pytest.mark.slow
def test_dealing_singly_then_doubly_then_taking_back(asked):
    store, _, client = asked
    root = {"x-user": "root"}

    def post(what, body, status=200):
        answer = client.post(f"/api/manage/{STUDY}/{what}", json=body, headers=root)
        assert answer.status_code == status, answer.text
        return answer.json()

    def counts(answer):
        return {r["name"]: (r["assigned"], r["read"]) for r in answer["readers"]}

    start = client.get(f"/api/manage/{STUDY}", headers=root).json()
    assert (start["cases"], start["free"]) == (12, 12) and {r["name"]: r["role"] for r in start["readers"]} == READERS
    single = post("assign", {"readers": ["ann", "ben"], "per_case": 1})
    assert counts(single)["ann"] == counts(single)["ben"] == (6, 0) and single["free"] == 0
    double = post("assign", {"readers": ["ann", "ben"], "per_case": 2})
    assert counts(double)["ann"] == counts(double)["ben"] == (12, 0)
    case = store.one("SELECT id FROM cases WHERE split = 'test'")["id"]
    decide(store, case, "ben", "normal")
    back = post("unassign", {"reader": "ben"})
    assert back["taken_back"] == 11 and counts(back)["ben"] == (1, 1) and counts(back)["ann"] == (12, 0)
    assert "name at least as many" in post("assign", {"readers": ["ann"], "per_case": 2}, 400)["error"]
    assert "Unknown reader 'eve'" in post("assign", {"readers": ["eve"]}, 400)["error"]
    kinds = [e["kind"] for e in audit.trail(store, STUDY)]
    assert kinds.count("assign") == 2 and kinds.count("unassign") == 1 and audit.verify(store)["ok"]
    mine = client.get(f"/api/review/list?study={STUDY}&assigned=1", headers={"x-user": "ben"}).json()["rows"]
    assert [r["id"] for r in mine] == [case]


@pytest.mark.slow
def test_labels_watch_and_a_missing_study(asked, tmp_path):
    store, run, client = asked
    root = {"x-user": "root"}
    kept = client.post(f"/api/manage/{STUDY}/labels", json={"labels": ["serrated", " ", "polyp"]}, headers=root).json()
    assert kept["labels"] == ["serrated", "polyp"] == decisions.finding_labels(store, STUDY)
    none = client.post(f"/api/manage/{STUDY}/labels", json={"labels": [" "]}, headers=root)
    assert none.status_code == 400 and "at least one label" in none.json()["error"]
    (tmp_path / "drop").mkdir()
    roots.allow_folder(store, tmp_path, "root")
    body = {"folder": str(tmp_path / "drop"), "run": run, "copy": True}
    kept = client.post(f"/api/manage/{STUDY}/watch", json=body, headers=root).json()["watch"]
    assert kept["active"] and kept["copy"] and kept["run"] == run
    assert client.get(f"/api/manage/{STUDY}", headers=root).json()["watch"]["folder"] == str(tmp_path / "drop")
    for path in ("nothing", "nothing/watch"):
        answer = client.post(f"/api/manage/{path}", json=body, headers=root)
        assert answer.status_code in (400, 404, 405)
    assert "unknown" in client.post("/api/manage/nothing/labels", json={"labels": ["a"]}, headers=root).json()["error"]


@pytest.mark.slow
def test_a_bundle_comes_in_by_the_page(asked, bare, tmp_path):  # noqa: F811
    store, _, client = asked
    export_bundle(store, STUDY, tmp_path / "room.zip", "root")
    other = client_of(bare, single_user=True)
    done = other.post("/api/export/bundle", content=(tmp_path / "room.zip").read_bytes()).json()
    assert done["study"] == STUDY and done["rows"]["cases"] == 22
    again = other.post("/api/export/bundle", content=(tmp_path / "room.zip").read_bytes())
    assert again.status_code == 400 and "already a study" in again.json()["error"]
    bad = other.post("/api/export/bundle", content=b"no zip")
    assert bad.status_code == 400 and "was not written by this program" in bad.json()["error"]


@pytest.mark.slow
def test_an_export_says_how_many_pictures_may_carry_text(asked):
    store, _, client = asked
    store.execute("UPDATE cases SET burned_in = 0")
    store.execute("UPDATE cases SET burned_in = 1 WHERE id IN (SELECT id FROM cases WHERE split = 'test' LIMIT 3)")
    answer = client.post(f"/api/export/{STUDY}/coco", headers={"x-user": "root"})
    assert answer.headers["x-burned-in-text"] == "3"


def test_a_file_of_annotations_that_is_not_taken_says_why_and_stores_nothing(room):  # noqa: F811
    store, _ = room
    client = client_of(store, single_user=True)
    for tool, body, why in (
        ("coco", b"{", "This file is no COCO file that can be read"), ("cvat", b"<!DOCTYPE a><a/>", "document type"),
        ("yolo", b"no zip", "This file is no YOLO file"), ("ply", b"", "annotations are imported from one of coco"),
        ("coco", b'{"images": [], "annotations": []}', "This file holds no shapes"),
    ):  # fmt: skip
        answer = client.put(f"/api/export/{STUDY}/annotations?tool={tool}", content=body)
        assert answer.status_code == 400 and why in answer.json()["error"], answer.text
    assert store.query("SELECT * FROM findings") == []


@pytest.fixture
def trail(asked):
    """get(user, **query) on a study with three decisions of each of two readers."""
    store, _, client = asked
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT 3")]
    for case in ids:
        for reader in ("ann", "ben"):
            decide(store, case, reader, "normal", comment="fine")
    return lambda user, **query: client.get("/api/audit", params=query, headers={"x-user": user})


def test_only_administrators_read_it(trail):
    for who in ("ann", "jo", "nobody"):
        assert trail(who).status_code == 403 and "administrator" in trail(who).json()["error"]
    assert trail("root").status_code == 200


def test_pages_follow_each_other_and_filters_hold(trail):
    first = trail("root", study=STUDY, limit=4).json()
    second = trail("root", study=STUDY, limit=4, before=first["next"]).json()
    seen = [e["id"] for e in first["events"] + second["events"]]
    assert seen == sorted(seen, reverse=True) and len(set(seen)) == 6 and second["next"] is None
    assert first["kinds"] == ["decision"] and first["people"] == ["ann", "ben"] and first["studies"] == [STUDY]
    event = first["events"][0]
    assert event["after"]["decision"] == "normal" and event["case"].endswith(".png") and "hash" not in event
    mine = trail("root", who="ann", kind="decision").json()["events"]
    assert len(mine) == 3 and {e["who"] for e in mine} == {"ann"}
    assert trail("root", study="another").json()["events"] == []
    for wrong in ({"since": "yesterday"}, {"limit": 0}, {"before": -1}, {"limit": 10**6}):
        assert trail("root", **wrong).status_code == 422
