"""What goes wrong is one sentence, with the status that fits."""

import errno
import re
import sqlite3
from urllib.parse import quote

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from app.routes import errors
from app.routes.manage import NewLabels
from core.studio.review import decisions
from core.studio.training import dryrun
from tests.app.routes.clients import client_of
from tests.app.routes.test_bodies import FOLDERS, ODD, asked, fields_of, send  # noqa: F401
from tests.studio.review.conftest import STUDY, room  # noqa: F401


def test_a_full_disk_is_said(room):  # noqa: F811
    store, _ = room
    client = client_of(store, single_user=True)

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    client.app.get("/full")(full)
    answer = client.get("/full")
    assert answer.status_code == 507 and "The disk is full" in answer.json()["error"]


@pytest.mark.slow
def test_what_nobody_foresaw_is_said_and_kept_for_the_administrator(room):  # noqa: F811
    store, _ = room
    client = client_of(store, single_user=True)

    def broken():
        raise RuntimeError("inside")

    client.app.get("/broken")(broken)
    answer = client.get("/broken")
    assert answer.status_code == 500 and "RuntimeError" in answer.json()["error"] and "inside" not in answer.text
    assert "RuntimeError: inside" in (store.home.path / "errors.log").read_text()


@pytest.mark.slow
def test_the_log_names_no_file(room):  # noqa: F811
    store, _ = room
    client = client_of(store, single_user=True)
    client.app.get("/patient/{name}")(lambda name: {}[f"{name}.png"])
    assert client.get("/patient/mueller-anna").status_code == 500
    kept = (store.home.path / "errors.log").read_text()
    assert "KeyError" in kept and "mueller" not in kept


def test_sentences_of_models():
    with pytest.raises(ValidationError) as raised:
        NewLabels(labels=5)
    found = [{**error, "loc": ("body", *error["loc"])} for error in raised.value.errors()]
    assert errors.sentence_of(RequestValidationError(found)) == "labels must be a list."


@pytest.mark.slow
@pytest.mark.parametrize(
    "error, status, sentence",
    [
        (sqlite3.OperationalError("database or disk is full"), 507, "The disk is full; nothing was stored"),
        (sqlite3.OperationalError("attempt to write a readonly database"), 507, "cannot be written to"),
        (OSError(errno.EROFS, "Read-only file system"), 507, "cannot be written to"),
        (sqlite3.OperationalError("database is locked"), 503, "is busy; nothing was stored"),
    ],
)
def test_a_decision_that_cannot_be_stored_says_why_and_leaves_nothing(room, monkeypatch, error, status, sentence):  # noqa: F811
    store, _ = room
    client = client_of(store, single_user=True)
    case = store.one("SELECT id FROM cases WHERE split = 'test'")["id"]

    def refuse(*args):
        raise error

    monkeypatch.setattr(decisions, "_keep", refuse)
    sent = {"token": "t1", "case": case, "decision": "normal"}
    answer = client.post("/api/review/decide", json=sent)
    assert answer.status_code == status and sentence in answer.json()["error"]
    assert store.query("SELECT * FROM reviews") == [] and store.query("SELECT * FROM events") == []
    monkeypatch.undo()
    assert client.post("/api/review/decide", json=sent).status_code == 200


@pytest.mark.long
def test_no_path_and_no_missing_key_breaks_a_route(asked, monkeypatch):  # noqa: F811
    """Every route, whatever its method: odd parts of its path; and a whole body without one of its keys."""
    monkeypatch.setattr(dryrun, "dry_run", lambda *args: {})
    _, client, found = asked
    wrong = []
    for route in found:
        names = sorted(set(fields_of(route)) - FOLDERS)
        bodies = [{n: "none" for n in names if n != left} for left in names] or [None]
        paths = [route.path.replace("{case_id}", "1").replace("{study}", STUDY + "x")] * len(bodies)
        calls = list(zip(paths, bodies, strict=True))
        if "GET" not in route.methods:
            for odd in ODD:
                path = re.sub(r"\{\w+\}", quote(odd or "x", safe=""), route.path)
                calls.append((path, {n: "none" for n in names} or None))
        for path, body in calls:
            answer = send(client, *route.methods, path, body) if body else client.request(*route.methods, path)
            if answer.status_code >= 500:
                wrong.append(f"{route.methods} {path:.80} {body!r:.60}: {answer.text}")
    assert not wrong, "\n".join(wrong)
