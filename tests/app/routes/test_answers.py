"""What the routes answer is what their models say, and the page's types are made from these."""

from __future__ import annotations

import json

import pytest

from app.access.permissions import RULES
from app.context import APP
from app.routes import schema
from app.routes._answers import ANSWERS, BINARY
from app.routes._answers.typescript import page
from core.studio.demo import study as demo
from core.studio.jobs import queue as jobs
from core.studio.training import dryrun
from tests.app.routes import every_route as every
from tests.app.routes.answers import check
from tests.studio.review.conftest import STUDY, room  # noqa: F401


@pytest.fixture
def ask(room, monkeypatch):  # noqa: F811
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])
    monkeypatch.setattr(demo, "make_demo", lambda *args, **options: STUDY)
    monkeypatch.setattr(dryrun, "dry_run", dryrun.measure)  # in this process
    return every.Asked(room[0])


def test_each_route_answers_as_its_model_says(ask, room, tmp_path):  # noqa: F811
    store, run = room
    encoder, fit = every.encoder_with_fit(store)
    every.ask_studies(ask, tmp_path)
    every.ask_review(ask, run, fit)
    every.ask_manage(ask, tmp_path)
    every.ask_medmix(ask)
    every.ask_training(ask, encoder, fit)
    every.ask_learn(ask, fit)
    every.ask_clusters(ask, fit, tmp_path / "more" / "train")
    for line in ("GET /api/tour", "GET /api/tour/steps", "POST /api/tour/prepare", "POST /api/tour/reset"):
        ask(line)
    missing = set(ANSWERS) - ask.client.checked.seen
    assert not missing, "asked by no line above"


def test_each_route_says_what_it_answers():
    declared = [*ANSWERS, *BINARY]
    assert sorted(declared) == sorted(RULES), "a row of app/routes/_answers for each route, and no other"


def test_the_page_has_the_types_that_are_made():
    kept = (APP / "static" / "answers.d.ts").read_text(encoding="utf-8")
    assert kept == page(), "run `python -m app.routes.schema --write`"
    assert schema.ANSWERS == APP / "static" / "answers.d.ts"


@pytest.mark.parametrize(
    "said",
    [{}, {"session": "1"}, {"session": 1.5}, {"session": True}, {"session": None}, {"session": 1, "cases": 2}],
)
def test_what_does_not_fit_is_found(said):
    assert check("POST /api/reading/end", "application/json", json.dumps({"ok": True, "session": 1}).encode())
    with pytest.raises(ValueError):
        check("POST /api/reading/end", "application/json", json.dumps({"ok": True, **said}).encode())
    with pytest.raises(ValueError):
        check("GET /api/case/{case_id}/image.png", "application/json", b"{}")
