"""Accounts by the page: who may, what is told once and kept nowhere, sessions that end, the last administrator."""

from __future__ import annotations

import json

import pytest

from core.studio.db import audit
from core.studio.review import people
from tests.app.routes.clients import PASSWORD, client_of, visitor, whole_server
from tests.studio.review.conftest import STUDY, decide, room  # noqa: F401

LIST = f"/api/accounts/{STUDY}"
ACTS = {
    "/api/accounts": {"name": "eve", "role": "reader"},
    "/api/accounts/set/role": {"name": "ben", "role": "administrator"},
    "/api/accounts/set/password": {"name": "ben"},
    "/api/accounts/set/removed": {"name": "ben"},
}


@pytest.fixture
def served(room):  # noqa: F811
    """The store and the whole server: ann and ben read, root alone administers."""
    store, _ = room
    for name, role in {"ann": "reader", "ben": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
    return store, whole_server(store)


def enters(server, name: str, password: str) -> bool:
    client = visitor(server, follow_redirects=False)
    return client.post("/sign-in", data={"name": name, "password": password}).status_code == 303


def rows(client) -> dict[str, dict]:
    return {row["name"]: row for row in client.get(LIST).json()["accounts"]}


@pytest.mark.slow
def test_strangers_and_readers_are_refused(served):
    store, server = served
    before = (people.list_readers(store), audit.verify(store)["head"])
    for who, status in ((None, 401), ("ann", 403)):
        client = visitor(server, who)
        assert client.get(LIST).status_code == status
        assert [client.post(path, json=body).status_code for path, body in ACTS.items()] == [status] * len(ACTS)
    assert (people.list_readers(store), audit.verify(store)["head"]) == before


def test_an_invited_reader_enters_by_a_password_that_is_kept_nowhere(served, caplog):
    store, server = served
    root = visitor(server, "root")
    answer = root.post("/api/accounts", json={"name": " Eve ", "role": "adjudicator"})
    password = answer.json()["password"]
    assert len(password) == 19 and answer.json()["name"] == "Eve" and answer.headers["cache-control"] == "no-store"
    assert enters(server, "Eve", password) and rows(root)["Eve"]["role"] == "adjudicator"
    again = root.post("/api/accounts/set/password", json={"name": "Eve"}).json()["password"]
    assert again != password and not enters(server, "Eve", password) and enters(server, "Eve", again)
    everything = "\n".join(store.db.conn.iterdump()) + caplog.text
    assert password not in everything and again not in everything
    kinds = {event["kind"]: event for event in audit.trail(store)}
    assert kinds["invite"]["who"] == "root" and kinds["invite"]["after"] == {"reader": "Eve", "role": "adjudicator"}
    assert kinds["password-reset"]["after"] == {"reader": "Eve"} and audit.verify(store)["ok"]


@pytest.mark.parametrize("name", ["ann", "ANN", "", "?", "x" * 65])
def test_a_name_that_is_taken_or_none_is_refused(served, name):
    store, server = served
    answer = visitor(server, "root").post("/api/accounts", json={"name": name, "role": "reader"})
    assert answer.status_code in (400, 422) and answer.json()["error"]
    assert len(people.list_readers(store)) == 3 and people.verify(store, "ann", PASSWORD)


@pytest.mark.slow
def test_a_role_holds_at_once_and_a_reset_or_removal_ends_sessions(served):
    store, server = served
    root, ann, ben = (visitor(server, name) for name in ("root", "ann", "ben"))
    assert ann.get(LIST).status_code == 403
    assert root.post("/api/accounts/set/role", json={"name": "ann", "role": "administrator"}).status_code == 200
    assert ann.get(LIST).status_code == 200
    event = audit.trail(store, kind="role")[0]
    assert event["before"] == {"reader": "ann", "role": "reader"} and event["after"] == {"role": "administrator"}
    root.post("/api/accounts/set/password", json={"name": "ann"})
    assert ann.get(LIST).status_code == 401 and ben.get("/api/status").status_code == 200
    root.post("/api/accounts/set/removed", json={"name": "ben"})
    assert ben.get("/api/status").status_code == 401 and not enters(server, "ben", PASSWORD)
    assert list(rows(root)) == ["ann", "root"]
    for path in list(ACTS)[1:]:
        assert "unknown reader 'ben'" in root.post(path, json=ACTS[path]).json()["error"]
    back = root.post("/api/accounts", json={"name": "ben", "role": "reader"}).json()
    assert enters(server, "ben", back["password"])


def test_one_administrator_always_stays(served):
    store, server = served
    root = visitor(server, "root")
    acts = {path: {**body, "name": "root"} for path, body in ACTS.items() if "/set/" in path}
    demoted = acts["/api/accounts/set/role"] = {"name": "root", "role": "reader"}
    assert rows(root)["root"]["last"] is True
    for path, body in acts.items():
        answer = root.post(path, json=body)
        assert answer.status_code == 400, path
        assert ("your own password" if "password" in path else "last administrator") in answer.json()["error"]
    root.post("/api/accounts/set/role", json={"name": "ann", "role": "administrator"})
    people.remove_reader(store, "ann")
    assert root.post("/api/accounts/set/role", json=demoted).status_code == 400, "one without a password is none"
    people.add_reader(store, "ben", PASSWORD, "administrator")
    assert rows(root)["root"]["last"] is False
    assert root.post("/api/accounts/set/role", json=demoted).status_code == 200
    assert root.get(LIST).status_code == 403 and people.role_of(store, "root") == "reader"


@pytest.mark.slow
def test_what_was_read_counts_without_being_assigned(served):
    store, server = served
    root = visitor(server, "root")
    cases = [r["id"] for r in store.query("SELECT id FROM cases WHERE split = 'test' LIMIT 3")]
    for case in cases:
        decide(store, case, "ann", "normal")
    decide(store, cases[0], "ann", "abnormal")  # once more: still one case

    def counts(name):
        return [rows(root)[name][key] for key in ("assigned", "read", "read_in_all")]

    assert counts("ann") == [0, 0, 3] and counts("ben") == [0, 0, 0]
    assert rows(root)["ann"]["seen"] and rows(root)["ben"]["seen"] is None and rows(root)["root"]["seen"]
    people.assign(store, STUDY, ["ann"], "root")
    assert counts("ann") == [12, 3, 3]
    shown = {r["name"]: r["read_in_all"] for r in root.get(f"/api/manage/{STUDY}").json()["readers"]}
    assert shown["ann"] == 3


def test_one_user_is_told_that_nobody_signs_in(room):  # noqa: F811
    client = client_of(room[0], single_user=True)
    answer = client.get(LIST).json()
    assert answer["sign_in"] is False and answer["accounts"] == [] and "password" not in json.dumps(answer)
