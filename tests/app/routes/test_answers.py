"""What each route answers is what it declares, and the page's types are made from that."""

from __future__ import annotations

import pytest

from app import routes
from core.studio.jobs import queue as jobs
from core.studio.review import people
from core.studio.training import dryrun
from tests.app.routes import every_route as every
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import STUDY, room  # noqa: F401
from tests.tools import scripts as _scripts


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
    every.ask_medmix(ask)
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


@pytest.mark.slow
def test_the_page_has_the_types_that_are_made():
    assert _scripts.main(["generated"]) == 0, "run `python -m tests.tools.scripts generate`"
