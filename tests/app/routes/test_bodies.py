"""Requests that do not fit are 422 with one sentence, or 400 with the reason; none of them breaks anything."""

from __future__ import annotations

import json
import random
from urllib.parse import quote

import pytest

from app import routes
from app.routes._types import MOST_VALUES
from core.engine.augment.config import MedMixConfig
from core.engine.objectives.config import PretrainConfig
from core.studio.clusters.config import MapConfig
from core.studio.jobs import queue as jobs
from core.studio.medmix.preview import Scene
from core.studio.review import decisions, people
from core.studio.training import dryrun
from tests.app.routes import every_route as every
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import STUDY, room  # noqa: F401

ODD = ["9" * 30, "-" + "9" * 30, "-1", "abc", "", "1e9", "nan", "\x00", "é" * 500, "../..", "[1,2", "x" * 5000]
VALUES = [None, True, -1, 10**30, 1e308, "x", "", "\ud800", [], [1], [[]], {}, {"a": {}}, "x" * 10_000]


FOLDERS = {"folder", "path"}  # a folder that happens to be there would be read


@pytest.fixture
def asked(room):  # noqa: F811
    """(store, client, all routes of the page)"""
    store, _ = room
    found = routes.every_route()
    with client_of(store, single_user=True) as client:  # one loop for all requests, which are thousands
        yield store, client, found


def send(client, method: str, path: str, body):
    """json.dumps lets pass what browsers would not send: lone surrogates, NaN."""
    return client.request(method, path, content=json.dumps(body), headers={"content-type": "application/json"})


def refused(answer) -> bool:
    """4xx in the shape that the page shows."""
    if not 400 <= answer.status_code < 500:
        return False
    said = answer.json()
    return said["ok"] is False and isinstance(said["error"], str) and "Traceback" not in said["error"]


def fields_of(route) -> dict[str, str]:
    """Names by which the page sends the fields of the route's body."""
    model = route.body_field.field_info.annotation if route.body_field else None
    return {field.alias or name: name for name, field in model.model_fields.items()} if model else {}


@pytest.mark.slow
def test_bodies_that_are_none_are_422(asked):
    _, client, found = asked
    tried = 0
    for route in found:
        if not route.body_field:
            continue
        method, path = *route.methods, route.path.replace("{case_id}", "1").replace("{study}", STUDY)
        for body in ([], 5, "x", None, [{}]):
            answer = send(client, method, path, body)
            assert answer.status_code == 422 and refused(answer), (path, body, answer.text)
            tried += 1
        answer = client.request(method, path, content=b"{", headers={"content-type": "application/json"})
        assert answer.status_code == 422 and "not JSON" in answer.json()["error"]
    assert tried > 100


@pytest.mark.long
def test_no_value_of_a_body_breaks_a_route(asked, monkeypatch):
    monkeypatch.setattr(dryrun, "dry_run", lambda *args: {"fits": False, "message": ""})  # a process of its own
    _, client, found = asked
    wrong = []
    for route in found:
        names = set(fields_of(route)) - FOLDERS
        for name in names:
            for value in VALUES:
                body = {other: "none" for other in names} | {name: value}
                answer = send(client, *route.methods, route.path.replace("{case_id}", "1"), body)
                if answer.status_code >= 500:
                    wrong.append(f"{route.path} {name}={value!r:.40}: {answer.text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_no_address_breaks_a_route(asked):
    _, client, found = asked
    wrong = []
    for route in found:
        if "GET" not in route.methods:
            continue
        queries = [p.alias for p in route.dependant.query_params]
        for odd in ODD:
            path = route.path
            for parameter in route.param_convertors:
                path = path.replace("{" + parameter + "}", quote(odd or "x", safe=""))
            for url, given in [(path, {})] + [(route.path, {q: odd} | {"study": STUDY}) for q in queries]:
                url = url.replace("{study}", STUDY).replace("{case_id}", "1")
                answer = client.get(url, params=given)
                if answer.status_code >= 500:
                    wrong.append(f"{url:.80} {q_of(given)}: {answer.text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_no_value_among_settings_breaks_a_route(asked, room):  # noqa: F811
    """Each setting of each configuration, by each odd value, through the routes that take it."""
    store, client, _ = asked
    wrong = []
    takers = [
        (PretrainConfig, lambda values: ("/api/training/check", {"config": values})),
        (MedMixConfig, lambda values: ("/api/medmix/presets.yaml", {"name": "x", "config": values})),
        (MapConfig, lambda values: ("/api/clusters/maps", {"run": room[1], "config": values})),
        (Scene, lambda values: ("/api/medmix/grid", {"scene": {"study": STUDY, "size": 64, "samples": 1} | values})),
    ]
    for kind, request in takers:
        for name in kind().to_dict():
            for value in VALUES:
                path, body = request({name: value})
                answer = send(client, "POST", path, body)
                if answer.status_code >= 500:
                    wrong.append(f"{kind.__name__}.{name}={value!r:.40}: {answer.text}")
    assert not wrong, "\n".join(wrong)


def q_of(given: dict) -> str:
    return ", ".join(f"{k}={v!r:.20}" for k, v in given.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, sentence",
    [
        ({"decision": "normal"}, "case is missing."),
        ({"case": "x", "decision": "normal"}, "case must be a whole number."),
        ({"case": 10**30, "decision": "normal"}, "case"),
        ({"case": -1, "decision": "normal"}, "case must be greater than or equal to 0."),
        ({"case": 1, "decision": "maybe"}, "decision must be 'normal', 'abnormal' or 'unsure'."),
        ({"case": 1, "decision": "normal", "seconds": float("nan")}, "seconds must be a finite number."),
        ({"case": 1, "decision": "normal", "shown": {"a": float("inf")}}, "is not finite"),
        ({"case": 1, "decision": "normal", "list": 5}, "list must be a group of settings."),
        ({"case": 1, "decision": "normal", "token": 7}, "token must be text."),
    ],
)
def test_what_is_wrong_is_named(asked, body, sentence):
    store, client, _ = asked
    answer = send(client, "POST", "/api/review/decide", body)
    assert answer.status_code == 422 and refused(answer) and sentence in answer.json()["error"], answer.text
    assert store.query("SELECT * FROM reviews") == []


def test_settings_have_an_end(asked):
    _, client, _ = asked
    deep: dict = {}
    for _ in range(20):
        deep = {"a": deep}
    usual = {"show": {"heat": True, "window": [0.1, 0.9]}}
    for show in (deep, {"a": [0] * (MOST_VALUES + 1)}, {"a": 10**30}, {"\ud800": 1}):
        answer = send(client, "POST", "/api/review/settings", {"show": show})
        assert answer.status_code == 422 and "these settings" in answer.json()["error"]
    assert send(client, "POST", "/api/review/settings", usual).status_code == 200


def test_what_the_page_sends_is_taken_as_before(asked):
    store, client, _ = asked
    case = store.one("SELECT id FROM cases WHERE split = 'test'")["id"]
    listed = {"study": STUDY, "run": "", "desc": "1", "split": "test"}
    sent = {
        "token": "t1",
        "case": case,
        "decision": "normal",
        "comment": "",
        "run": None,
        "shown": {},
        "seconds": 1.23456,
    }
    first = send(client, "POST", "/api/review/decide", sent | {"list": listed}).json()
    again = send(client, "POST", "/api/review/decide", sent | {"list": listed}).json()
    assert first["ok"] and first["review"] == again["review"] and first["next"]["id"] != case
    assert [r["seconds"] for r in store.query("SELECT seconds FROM reviews")] == [1.235]
    alone = send(client, "POST", "/api/review/decide", {"case": case, "decision": "unsure"}).json()
    assert alone["next"]["id"] == case and alone["next"]["mine"][-1]["decision"] == "unsure"
    moved = {"token": "t2", "case": case, "run": None, "from": 0.5, "to": 0.75}
    assert send(client, "POST", "/api/review/threshold", moved).json() == {"ok": True}
    event = store.one("SELECT before, after FROM events ORDER BY id DESC LIMIT 1")
    assert event == {"before": "0.5", "after": "0.75"}
    labels = {"study": STUDY, "labels": ["polyp"]}
    assert send(client, "POST", "/api/review/settings", labels).json() == {"ok": True}
    assert decisions.finding_labels(store, STUDY) == ["polyp"]


PLACES = {"folder", "path", "url", "server"}  # what is there would be read, or asked
STRANGE = [
    "x" * 5000, "é" * 2000, "\x00", "../" * 40, "..", ".", "~", "%00", "*", "' OR 1=1 --", "<script>", "a/b", "\\",
    "-1", "nan", "1e999", "9" * 40, "0x10", "[]", "{}", "null", "", " ", "\u202e", "\U0001f600" * 300, "con", "a\nb",
]  # fmt: skip


def drawn_of(schema: dict, known: list, draw: random.Random, definitions: dict, depth: int = 0):
    """A value that fits a schema of openapi.json, or one that does not."""
    schema = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
    if draw.random() < 0.2 or depth > 4:
        return draw.choice([*VALUES, *STRANGE])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return drawn_of(draw.choice(schema[several]), known, draw, definitions, depth + 1)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        made = {n: drawn_of(s, known, draw, definitions, depth + 1) for n, s in fields.items() if n not in PLACES}
        return made | ({} if fields else {draw.choice(STRANGE): draw.choice(VALUES)})
    if kind == "array":
        inner = schema.get("items", {})
        return [drawn_of(inner, known, draw, definitions, depth + 1) for _ in range(draw.choice([0, 1, 2, 4, 30]))]
    if kind in ("integer", "number"):
        return draw.choice([0, 1, 2, 5, -1, 2**31, 2**63 - 1, 2**63, 10**30, 0.5, 1e-320, 1e300])
    return draw.choice([True, False]) if kind == "boolean" else draw.choice([*known, *STRANGE])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_drawn_values_break_no_route(asked, room, monkeypatch, seed):  # noqa: F811
    """Every route of openapi.json, each parameter and field drawn: names that are there, and what no name is."""
    monkeypatch.setattr(dryrun, "dry_run", lambda *args: {"fits": False, "message": ""})
    store, client, _ = asked
    document, draw, wrong = client.get("/openapi.json").json(), random.Random(seed), []
    definitions = document["components"]["schemas"]
    known = [STUDY, room[1], "csv", "png", "svg", "archive", "0", "1", "12", "1,2"]
    asks = [(path, method, of) for path, ways in document["paths"].items() for method, of in ways.items()]
    assert len(asks) > 150
    for path, method, of in asks * 4:
        url, query = path, {}
        for parameter in of.get("parameters", []):
            value = drawn_of(parameter["schema"], known, draw, definitions)
            if parameter["name"] in PLACES:
                continue
            if parameter["in"] == "path":
                url = url.replace(
                    "{" + parameter["name"] + "}", quote(str(value).encode(errors="replace"), safe="") or "x"
                )
            elif value is not None and draw.random() < 0.7:
                query[parameter["name"]] = str(value).encode(errors="replace")
        body = of.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        given = {"content": b"\x00\xff" * 20} if body is None and method in ("post", "put") else {}
        if body is not None:
            text = json.dumps(drawn_of(body, known, draw, definitions))
            given = {"content": text, "headers": {"content-type": "application/json"}}
        answer = client.request(method, url, params=query, **given)
        if answer.status_code >= 500:
            wrong.append(f"{method} {url:.80} {q_of(query)} {str(given)[:200]}: {answer.text}")
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def ask(room, monkeypatch):  # noqa: F811
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])
    monkeypatch.setattr(dryrun, "dry_run", lambda *given: dryrun.measure(*given, "cpu"))  # in this process
    return every.Asked(room[0])


@pytest.mark.slow
def test_each_route_answers_as_its_model_says(ask, room, tmp_path):  # noqa: F811
    store, run = room
    encoder, fit = every.encoder_with_fit(store)
    every.ask_studies(ask, tmp_path)
    every.ask_review(ask, run, fit)
    every.ask_manage(ask, tmp_path)
    every.ask_medmix(ask, fit)
    every.ask_training(ask, encoder, fit)
    every.ask_trials(ask, run)
    every.ask_learn(ask, fit)
    every.ask_clusters(ask, fit, tmp_path / "more" / "train")
    for line in ("GET /api/tour", "GET /api/tour/steps", "POST /api/tour/prepare", "POST /api/tour/reset"):
        ask(line)
    asked = ask.client.checked.seen
    missing = {f"{m} {r.path}" for r in routes.every_route() for m in r.methods if r.response_model} - asked
    assert not missing, "asked by no line above"


def test_each_route_declares_what_it_answers():
    undeclared = [route.path for route in routes.every_route() if not (route.response_model or 200 in route.responses)]
    assert undeclared == []


def test_an_answer_that_is_not_what_its_route_declares_does_not_leave(room, monkeypatch):  # noqa: F811
    client = client_of(room[0], single_user=True)
    usual = {"id": 1, "name": "padim", "method": "padim", "created": "2026"}
    assert client.get(f"/api/manage/{STUDY}").status_code == 200
    for row in (usual | {"secret": "a name"}, {key: usual[key] for key in usual if key != "name"}, usual | {"id": []}):
        monkeypatch.setattr(people, "list_accounts", lambda *asked, row=row: [row])
        answer = client.get(f"/api/accounts/{STUDY}")
        assert answer.status_code == 500 and "secret" not in answer.text and "a name" not in answer.text
