"""Gradio's own part of the server: its functions, and the files it might serve. A new function needs a row here."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from core.studio.review import people
from tests.app.routes.clients import PASSWORD, visitor, whole_server
from tests.studio.review.conftest import STUDY, room  # noqa: F401

pytestmark = pytest.mark.slow

ROLES = ("nobody", "reader", "blind reader", "reader of another study", "administrator")
ANSWERED = (401, 200, 200, 200, 200)
FUNCTIONS = {
    "start": ANSWERED,  # these two give the names of the studies, which the picker shows to all
    "renew": ANSWERED,
    # Each of these asks a route as its caller, and that one decides (tests/app/test_endpoints.py): the queue takes it.
    "studies": ANSWERED, "runs": ANSWERED, "score_image": ANSWERED, "explain": ANSWERED, "worklist": ANSWERED,
    "decide": ANSWERED, "medmix_preview": ANSWERED, "train": ANSWERED, "job": ANSWERED, "stop": ANSWERED,
}  # fmt: skip
BROKEN = "An internal error occurred (KeyError). See errors.log in the studio's home for details."
WHO = {"reader": "ann", "blind reader": "ann", "reader of another study": "bob", "administrator": "root"}


@pytest.fixture
def served(room):  # noqa: F811
    store, _ = room
    for name, role in {"ann": "reader", "bob": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
    server = whole_server(store)
    yield store, server, {role: visitor(server, WHO.get(role), follow_redirects=False) for role in ROLES}
    store.close()


def test_each_function_has_one_row(served):
    _, server, _ = served
    found = [fn.name for fn in server.state.ctx.demo.fns.values() if fn.fn is not None]
    assert sorted(found) == sorted(FUNCTIONS)


def test_who_is_answered(served):
    store, server, clients = served
    wrong = []
    for number, fn in server.state.ctx.demo.fns.items():
        if fn.fn is None:
            continue
        found = []
        for role in ROLES:
            store.set_setting(f"blind:{STUDY}", role == "blind reader")
            body = {"data": [None] * len(fn.inputs), "fn_index": number, "session_hash": "x"}
            found.append(clients[role].post("/gradio_api/queue/join", json=body).status_code)
        if tuple(found) != FUNCTIONS[fn.name]:
            wrong.append(f"{fn.name}: {found}, not {FUNCTIONS[fn.name]}")
    assert not wrong, "\n".join(wrong)


def test_nobody_is_given_files_of_the_machine_or_the_home(served):
    store, _, clients = served
    case = store.one("SELECT path FROM cases LIMIT 1")["path"]
    for file in ("/etc/passwd", store.home.db, store.home.path / "session.key", case, __file__):
        for role, client in clients.items():
            for address in (f"/gradio_api/file={file}", f"/file={file}", f"/gradio_api/proxy=http://localhost{file}"):
                status = client.get(address).status_code
                assert status in (400, 401, 403, 404, 405), (role, address, status)


def test_nothing_is_uploaded_through_gradio_by_nobody(served):
    _, _, clients = served
    files = {"files": ("a.txt", b"x")}
    assert clients["nobody"].post("/gradio_api/upload", files=files).status_code == 401
    before = _temporary()
    for role in ROLES[1:]:
        for size in (1, 3_000_000):
            answer = clients[role].post("/gradio_api/upload", files={"files": ("a.txt", b"x" * size)})
            assert answer.status_code == 404 and "nothing at this address" in answer.json()["error"]
    assert _temporary() == before


def _temporary() -> set[str]:
    """What lies in Gradio's folder for uploads."""
    folder = Path(tempfile.gettempdir()) / "gradio"
    return {str(path) for path in folder.rglob("*")} if folder.is_dir() else set()


def test_what_the_page_does_not_ask_of_gradio_is_closed(served):
    _, _, clients = served
    for address in ("call/x", "run/x", "api/x", "call/start", "component_server", "stream/x", "process_recording"):
        answer = clients["reader"].post(f"/gradio_api/{address}", json={"data": []})
        assert answer.status_code == 404 and answer.json()["error"] == "There is nothing at this address."
        assert clients["nobody"].post(f"/gradio_api/{address}", json={"data": []}).status_code == 401
    assert clients["reader"].get("/gradio_api/call/x/abc").status_code == 404


def test_no_other_page_may_read_an_answer(served):
    _, _, clients = served
    for origin in ("http://localhost:3000", "http://127.0.0.1:3000", "null", "https://example.org"):
        asks = {"Origin": origin, "Access-Control-Request-Method": "GET"}
        for address in ("/", "/config", "/gradio_api/info", "/api/status", "/nothing"):
            for method in ("GET", "HEAD", "OPTIONS", "POST"):
                answer = clients["administrator"].request(method, address, headers=asks)
                assert not [name for name in answer.headers if name.startswith("access-control")], address
                assert method in ("GET", "HEAD") or answer.status_code == 403


def test_no_error_of_a_function_shows_its_inside(served, monkeypatch):
    """Neither objects nor types nor choices, whatever is sent; and what breaks is in errors.log alone."""
    store, server, clients = served
    demo = server.state.ctx.demo

    def ask(number, data) -> tuple[int, str]:
        answer = clients["reader"].post("/gradio_api/run/predict", json={"data": data, "fn_index": number})
        return answer.status_code, answer.json().get("error") or ""

    for number in (99, -1, None):
        assert ask(number, []) == (404, "There is no such function.")
    for number, fn in demo.fns.items():
        for value in ("x", {"a": 1}, [1], None) if fn.fn is not None else ():
            for data in ([], [value] * len(fn.inputs)):
                said = ask(number, data)[1]
                assert not re.search(r"object at|class '|choices|int\(\)|hashable|Wanted", said), (fn.name, data, said)
    number, fn = next((number, fn) for number, fn in demo.fns.items() if fn.name == "start")
    monkeypatch.setattr(fn, "fn", lambda request: {}["inside"])
    assert ask(number, []) == (500, BROKEN)
    assert "KeyError" in (store.home.path / "errors.log").read_text()


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"', '{"a": [NaN]}', "[" * 10**5])
def test_what_no_json_may_have_is_refused_in_a_sentence(served, value):
    _, server, clients = served
    number = next(number for number, fn in server.state.ctx.demo.fns.items() if fn.name == "start")
    body = f'{{"data": [{value}], "fn_index": {number}, "session_hash": "x"}}'
    for address in ("run/predict", "queue/join", "reset", "cancel", "startup-events", "mcp/"):
        answer = clients["reader"].post(f"/gradio_api/{address}", content=body, headers={"Content-Type": "text/json"})
        assert (answer.status_code, answer.json()["error"]) == (422, "The request's body is not JSON."), address
