"""Every route of openapi.json, by everybody: the answer follows from the permission that the route declares."""

from __future__ import annotations

import re

import pytest
from fastapi import APIRouter, FastAPI

from app import routes
from app.access import permissions
from app.access.permissions import Sighted
from core.studio.db import owners
from core.studio.review import people
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.studio.review.conftest import STUDY, asks, room  # noqa: F401

IN = "in"  # asked, and answered by the route itself: done, or a sentence about what is wrong with the request
# nobody, the reader who made it, the same while a study is read blind, a reader of another study, an administrator
ALLOWED = {
    permissions.READER: (401, IN, IN, IN, IN),
    permissions.SIGHTED: (401, IN, 403, IN, IN),
    permissions.OWNER: (401, IN, 403, 403, IN),
    permissions.ADMINISTRATOR: (401, 403, 403, 403, IN),
    permissions.OVERSEER: (401, 403, 403, 403, IN),
}
HIDDEN = {  # for readers, but what they show of a case is hidden until the blind reader has decided: asked inside
    "DELETE /api/review/draft/{case_id}",
    "GET /api/case/{case_id}/explain",
    "GET /api/case/{case_id}/heat",
    "GET /api/case/{case_id}/mask.bits",
    "GET /api/case/{case_id}/nearest",
    "GET /api/export/{study}/warning",
    "GET /api/review/draft/{case_id}",
    "GET /api/review/normal/{case_id}",
    "POST /api/export/{study}/{kind}",
    "POST /api/review/draft/{case_id}",
    "POST /api/review/mask/{case_id}",
    "POST /api/review/normal/{case_id}",
    "POST /api/review/restore/{mask_id}",
    "POST /api/review/segment/{case_id}",
}
OWNED = {"map": "none", "view": "7", "projection": "none", "preset": "none", "drop": "0" * 32, "run": "none"}
FILLED = {
    "study": STUDY, "kind": "csv", "format": "svg", "point": "0", "image": "0", "view": "7", "token": "0" * 32,
    "action": "archive", "job": "0", "session": "0", "finding": "0",
}  # fmt: skip
QUERY = {
    "heat": "run=RUN", "nearest": "run=RUN", "explain": "run=RUN", "raw": "",
    "open": f"study={STUDY}", "list": f"study={STUDY}", "drafts": f"study={STUDY}", "reading": f"study={STUDY}",
    "step": f"study={STUDY}", "counts": f"study={STUDY}", "runs": f"study={STUDY}", "maps": f"study={STUDY}",
}  # fmt: skip


@pytest.fixture
def asked(room, monkeypatch):  # noqa: F811
    """ask(who, row) -> status; the study's maker is ann, bob reads another study, root administers."""
    from core.studio.demo import tour

    store, run = room
    for name, role in {"ann": "reader", "bob": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
    for kind, id in OWNED.items():
        owners.set_owner(store, kind, [id], "ann")
    monkeypatch.setattr(tour, "prepare", lambda store, *args, **options: tour.state(store))
    server = whole_server(store)
    clients = {name: visitor(server, name) for name in (None, "ann", "bob", "root")}
    case = store.one("SELECT id FROM cases WHERE split = 'test' AND label = 'abnormal'")["id"]
    mask = store.one("SELECT id FROM lesion_masks WHERE case_id = ?", [case])["id"]

    def ask(who: str | None, row: str) -> int:
        method, path = row.split(" ")
        if row == "DELETE /api/study/{study}":
            path = "/api/study/none"
        known_as = asks(store, who or "", case_id=case).names.number(case)
        filled = {**FILLED, "case_id": str(known_as), "mask_id": str(mask)}
        path = re.sub(r"\{(\w+)\}", lambda m: filled.get(m[1], "none"), path)
        query = QUERY.get(path.rsplit("/")[-1], "").replace("RUN", run)
        body = {} if method in ("POST", "PUT") else None
        return clients[who].request(method, f"{path}?{query}", json=body).status_code

    yield ask, store, server
    store.close()


def operations(server) -> dict[str, dict]:
    """{"METHOD /path": operation} of openapi.json."""
    paths = visitor(server, "root").get("/openapi.json").json()["paths"]
    return {f"{method.upper()} {path}": about for path, methods in paths.items() for method, about in methods.items()}


# Who may adjudicate is asked of the case's study, inside the route; of those asked here root alone may.
OF_ADJUDICATORS = {"POST /api/review/reference/{mask_id}"}


def expected(row: str, operation: dict) -> tuple:
    """What the declared permission says of nobody, ann, ann while she reads blind, bob and root."""
    role = operation["security"][0]["session"][0].partition(" of the ")[0]
    found = ALLOWED[role]
    if row in OF_ADJUDICATORS:
        return (found[0], 403, 403, 403, found[4])
    return (*found[:2], 403, *found[3:]) if row in HIDDEN else found


@pytest.mark.slow
def test_openapi_lists_each_route_with_a_tag_a_sentence_and_who_may_use_it(asked):
    _, _, server = asked
    found = operations(server)
    own = [f"{method} {route.path}" for route in routes.every_route() for method in route.methods]
    assert sorted(found) == sorted(own) and len(own) > 100
    for row, operation in found.items():
        assert operation["tags"] and re.match(r"[A-Z]\S* .*[^.]$", operation["summary"]), row
        assert len(operation["security"][0]["session"]) == 1, row
        assert "200" in operation["responses"] and "4XX" in operation["responses"], row


def test_a_route_that_does_not_say_who_may_use_it_is_refused_at_start_up():
    closed, open_, mute = APIRouter(), APIRouter(), APIRouter()

    @closed.get("/api/closed")
    def closed_route(who: Sighted):
        """Answer."""

    @open_.get("/api/open")
    def open_route():
        """Answer."""

    @mute.get("/api/mute")
    def mute_route(who: Sighted): ...

    permissions.include(FastAPI(), closed)
    with pytest.raises(RuntimeError, match="GET /api/open does not declare who may use it"):
        permissions.include(FastAPI(), open_)
    with pytest.raises(RuntimeError, match="GET /api/mute has no docstring"):
        permissions.include(FastAPI(), mute)


@pytest.mark.slow
def test_openapi_is_for_those_who_are_signed_in_and_says_who_may_do_what(asked):
    _, _, server = asked
    assert visitor(server).get("/openapi.json").status_code == 401
    operation = visitor(server, "ann").get("/openapi.json").json()["paths"]["/api/accounts/{study}"]["get"]
    assert operation["security"] == [{"session": ["administrator"]}] and operation["tags"] == ["accounts"]
    assert operation["summary"] == "Lists the accounts, with each reader's progress in the study"


@pytest.mark.slow
def test_who_is_let_in_follows_from_what_each_route_declares(asked):
    ask, store, server = asked
    wrong = []
    for row, operation in sorted(operations(server).items()):
        found = []
        for who, hidden in ((None, False), ("ann", False), ("ann", True), ("bob", False), ("root", False)):
            store.set_setting(f"blind:{STUDY}", hidden)
            status = ask(who, row)
            found.append(status if status in (401, 403) or status >= 500 else IN)
        if tuple(found) != expected(row, operation):
            wrong.append(f"{row}: {found}, not {expected(row, operation)}")
    assert not wrong, "\n".join(wrong)


def test_nobody_is_answered_by_gradio(asked):
    _, _, server = asked
    client = visitor(server, follow_redirects=False)
    inner = next(route.app for route in server.routes if type(route).__name__ == "Mount" and route.path == "")
    tried = 0
    for route in inner.routes:
        for method in getattr(route, "methods", None) or ():
            path = re.sub(r"\{[^}]*\}", "x", route.path)
            if not path.startswith(("/sign-in", "/page/static/", "/favicon")):
                assert client.request(method, path).status_code == 401, f"{method} {path}"
                tried += 1
    assert tried > 20


def test_a_removed_administrators_cookie_is_worth_nothing(asked):
    _, store, server = asked
    client = visitor(server, "root")
    assert client.get(f"/api/manage/{STUDY}").status_code == 200
    people.remove_reader(store, "root")
    assert client.get(f"/api/manage/{STUDY}").status_code == 401


def test_readers_name_no_folders(asked, tmp_path):
    _, store, server = asked
    for path in ("/api/clusters/maps/none/placed", "/api/study/import", f"/api/study/{STUDY}/add"):
        body = {"folder": str(tmp_path), "path": str(tmp_path), "name": "x"}
        assert visitor(server, "bob").post(path, json=body).status_code in (400, 403)
    assert store.query("SELECT * FROM cluster_projected") == []


def test_who_makes_a_preset_may_remove_it_and_nobody_else_but_an_administrator(asked):
    _, _, server = asked
    ann, bob, root = (visitor(server, name) for name in ("ann", "bob", "root"))
    for remover in (ann, root):
        assert ann.post("/api/medmix/presets", json={"name": "mine", "config": {}}).status_code == 200
        assert bob.delete("/api/medmix/presets/mine").status_code == 403
        assert remover.delete("/api/medmix/presets/mine").status_code == 200
    assert bob.post("/api/medmix/presets", json={"name": "mine", "config": {}}).status_code == 200
    assert ann.delete("/api/medmix/presets/mine").status_code == 403, "the name was free again"


def test_an_encoder_with_another_readers_fit_is_not_deleted_by_its_maker(asked):
    _, store, server = asked
    from core.studio.runs import records

    encoder = records.create_run(store, STUDY, "pretrain", "pmsacl", {})
    fit = records.create_run(store, STUDY, "fit", "padim", {}, parent=encoder)
    owners.set_owner(store, "run", [encoder], "ann")
    owners.set_owner(store, "run", [fit], "bob")
    delete = f"/api/training/run/{encoder}/delete"
    assert visitor(server, "ann").post(delete, json={}).status_code == 403
    assert visitor(server, "root").post(delete, json={}).status_code == 200
