"""Route by route, who may use what. A new route needs a row in the table and one here."""

from __future__ import annotations

import re

import pytest

from app import routes
from app.access import permissions
from core.studio.db import owners
from core.studio.review import accounts
from core.studio.review.aliases import Aliases
from tests.app.access.expected import IN, TABLE
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.studio.review.conftest import STUDY, room  # noqa: F401

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
    from core.studio.demo import study as demo
    from core.studio.demo import tour

    store, run = room
    for name, role in {"ann": "reader", "bob": "reader", "root": "administrator"}.items():
        accounts.add_reader(store, name, PASSWORD, role)
    for kind, id in OWNED.items():
        owners.set_owner(store, kind, [id], "ann")
    monkeypatch.setattr(demo, "make_demo", lambda *args, **options: STUDY)
    monkeypatch.setattr(tour, "prepare", lambda store, *args, **options: tour.state(store))
    server = whole_server(store)
    clients = {name: visitor(server, name) for name in (None, "ann", "bob", "root")}
    case = store.one("SELECT id FROM cases WHERE split = 'test' AND label = 'abnormal'")["id"]
    mask = store.one("SELECT id FROM lesion_masks WHERE case_id = ?", [case])["id"]

    def ask(who: str | None, row: str) -> int:
        method, path = row.split(" ")
        if row == "DELETE /api/study/{study}":
            path = "/api/study/none"
        cookie = clients[who].cookies.get(server.state.ctx.sessions.COOKIE, "")
        known_as = Aliases(store, who or "", cookie).number(STUDY, case)
        filled = {**FILLED, "case_id": str(known_as), "mask_id": str(mask)}
        path = re.sub(r"\{(\w+)\}", lambda m: filled.get(m[1], "none"), path)
        query = QUERY.get(path.rsplit("/")[-1], "").replace("RUN", run)
        body = {} if method in ("POST", "PUT") else None
        return clients[who].request(method, f"{path}?{query}", json=body).status_code

    yield ask, store, server
    store.close()


def own_routes(server) -> list[str]:
    modules = routes.router_modules()
    found = [route for module in modules for route in module.routes(server.state.ctx).routes]
    return sorted(f"{method} {route.path}" for route in found for method in route.methods)


def test_each_route_has_one_row_and_nothing_else_has(asked):
    _, _, server = asked
    assert own_routes(server) == sorted(permissions.RULES) == sorted(TABLE)


def test_who_is_let_in(asked):
    ask, store, _ = asked
    wrong = []
    for row, expected in sorted(TABLE.items()):
        found = []
        for who, hidden in ((None, False), ("ann", False), ("ann", True), ("bob", False), ("root", False)):
            store.set_setting(f"blind:{STUDY}", hidden)
            status = ask(who, row)
            found.append(status if status in (401, 403) or status >= 500 else IN)
        if tuple(found) != expected:
            wrong.append(f"{row}: {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_a_route_without_a_row_is_refused(asked, monkeypatch):
    ask, _, _ = asked
    assert ask("root", "GET /api/status") == 200
    monkeypatch.delitem(permissions.RULES, "GET /api/status")
    assert ask("root", "GET /api/status") == 403


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
    accounts.remove_reader(store, "root")
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
