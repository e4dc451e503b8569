"""One's own password: by the one of today alone, and every other browser is signed out."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from app.access.sign_in import FREE
from core.studio.db import audit
from core.studio.review import people
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.studio.review.conftest import room  # noqa: F401

NEW = "another long password"


@pytest.fixture
def served(room):  # noqa: F811
    store, _ = room
    people.add_reader(store, "ann", PASSWORD, "adjudicator")
    return store, whole_server(store)


def ask(client: TestClient, old: str, new: str = NEW, again: str | None = None):
    return client.post("/password", data={"old": old, "new": new, "again": new if again is None else again})


@pytest.mark.slow
def test_it_is_changed_and_this_browser_alone_stays_signed_in(served):
    store, server = served
    here, there = visitor(server, "ann"), visitor(server, "ann")
    form = here.get("/password")
    assert "<strong>ann</strong>" in form.text and form.headers["cache-control"] == "no-store"
    answer = ask(here, PASSWORD)
    assert answer.status_code == 200 and "is changed" in answer.text and NEW not in answer.text
    assert here.get("/api/status").status_code == 200 and there.get("/api/status").status_code == 401
    assert people.verify(store, "ann", NEW) and not people.verify(store, "ann", PASSWORD)
    assert people.role_of(store, "ann") == "adjudicator"
    event = next(event for event in audit.trail(store) if event["kind"] == "password")
    assert (event["who"], event["after"]) == ("ann", {"reader": "ann"}) and audit.verify(store)["ok"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "again", "said"),
    [
        ("a wrong one", NEW, NEW, "That is not the password of today."),
        (PASSWORD, NEW, "something else", "differ"),
        (PASSWORD, "short", "short", "at least 8 characters"),
        (PASSWORD, PASSWORD, PASSWORD, "The new password is the old one."),
        (PASSWORD, "x" * 2000, "x" * 2000, "at most 1024"),
    ],
)
def test_what_is_refused_says_why_and_changes_nothing(served, old, new, again, said):
    store, server = served
    client = visitor(server, "ann")
    answer = ask(client, old, new, again)
    assert answer.status_code in (400, 401) and said in answer.text
    assert people.verify(store, "ann", PASSWORD) and client.get("/api/status").status_code == 200


def test_nobody_guesses_by_it(served):
    _, server = served
    client = visitor(server, "ann")
    tries = [ask(client, "guess") for _ in range(FREE + 6)]  # the waits double: even slow hashing meets one
    assert [answer.status_code for answer in tries[:FREE]] == [401] * FREE
    held = next(answer for answer in tries if answer.status_code == 429)
    assert int(held.headers["retry-after"]) >= 1 and "Too many wrong passwords" in held.text


def test_an_account_removed_meanwhile_gets_no_session(served, monkeypatch):
    store, server = served
    client, real = visitor(server, "ann", follow_redirects=False), people.verify

    def slow(*asked):
        right = real(*asked)
        people.remove_reader(store, "ann")
        return right

    monkeypatch.setattr(people, "verify", slow)
    assert ask(client, PASSWORD).headers["location"] == "/sign-in"
    assert store.query("SELECT * FROM sessions") == [] and not real(store, "ann", NEW)


@pytest.mark.slow
def test_strangers_sign_in_first_and_one_user_has_none(served):
    store, server = served
    assert visitor(server).get("/password").status_code == 401
    alone = visitor(whole_server(store, single_user=True), follow_redirects=False)
    assert alone.get("/password").headers["location"] == "/" and ask(alone, "x").headers["location"] == "/"
