"""The routes of learning from marks: what there is to learn from, a job beside the old fit, and the comparison."""

from __future__ import annotations

import numpy as np
import pytest

from core.studio.jobs import worker
from core.studio.review import sessions
from core.studio.review.cases import scored_runs
from core.studio.runs import learnt
from tests.app.routes.clients import client_of, visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.conftest import quick_lessons, scored_padim
from tests.studio.review.conftest import STUDY, add_readings, decide, save_mask


def mark(store, case: dict, reader: str = "ann") -> None:
    mask = np.zeros((case["height"], case["width"]), np.uint8)
    mask[10:30, 10:30] = 1
    save_mask(store, case["id"], mask, reader)
    decide(store, case["id"], reader, "abnormal")


@pytest.mark.long
def test_what_is_learnt_is_offered_beside_the_old_one(store, tiny_study, monkeypatch):
    monkeypatch.setattr(learnt, "LearntConfig", quick_lessons)
    _, fit = scored_padim(store, tiny_study)
    sick = store.query("SELECT * FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal'", [tiny_study])
    client, path = client_of(store), f"/api/learn/{tiny_study}"
    refused = client.post(path, json={"fit": fit})
    assert refused.status_code == 400 and "no accepted mask to learn from" in refused.json()["error"]
    for case in sick[:3]:
        mark(store, case)
    there = client.get(path).json()
    assert (there["masks"], there["patients"], there["readers"], there["learnt"]) == (3, 3, ["ann"], [])
    assert [one["id"] for one in there["fits"]] == [fit]
    made = client.post(path, json={"fit": fit}).json()
    twice = client.get(path).json()["learnt"]
    assert [one["id"] for one in twice] == [made["run"]] and twice[0]["job"]["status"] == "queued"
    worker.run_queue(store)
    found = client.get(path).json()
    run = found["learnt"][0]
    assert run["gain"]["images"] == 3 and run["gain"]["words"] and run["fault"] is None and not found["due"]
    assert run["status"] == "done" and run["comparison"]["left_out"] == 3 and run["comparison"]["verdict"] == "few"
    assert [one["id"] for one in found["fits"]] == [fit], "one cannot learn on from what has learnt"
    runs = client.get(f"/api/review/open?study={tiny_study}").json()["runs"]
    assert [one["id"] for one in runs] == [fit, made["run"]], "the old one stays the first"


@pytest.mark.slow
def test_a_fit_of_another_study_is_refused_and_blind_readers_learn_nothing(store, tiny_study):
    store.execute("INSERT INTO studies (id, name, created) VALUES ('other', 'other', '')")
    _, fit = scored_padim(store, tiny_study)
    client = client_of(store)
    refused = client.post("/api/learn/other", json={"fit": fit})
    assert refused.status_code == 400 and "does not belong to this study" in refused.json()["error"]
    sessions.set_blind(store, tiny_study, True, "root")
    assert client.get(f"/api/learn/{tiny_study}").status_code == 403


@pytest.mark.slow
def test_a_run_is_adopted_and_rolled_back(reading):  # noqa: F811
    store, run, server = reading
    root, path = visitor(server, "root"), f"/api/learn/{STUDY}/adopt"
    other = add_readings(store, STUDY, "blend", seed=3)
    usual = [r["id"] for r in scored_runs(store, STUDY)]
    last = usual[-1]
    assert {run, other} <= set(usual) and not any(r["adopted"] for r in scored_runs(store, STUDY))
    assert root.post(path, json={"run": last}).json() == {"ok": True}
    first = scored_runs(store, STUDY)[0]
    assert first["id"] == last and first["adopted"] and first["first"]
    refused = root.post(path, json={"run": "another"})
    assert refused.status_code == 400 and "cannot be adopted" in refused.json()["error"]
    assert visitor(server, "ann").post(path, json={"run": run}).status_code >= 400, "a blind reader sees no detector"
    assert scored_runs(store, STUDY)[0]["id"] == last
    assert root.post(path, json={}).json() == {"ok": True}
    assert [r["id"] for r in scored_runs(store, STUDY)] == usual
    acts = [(r["who"], r["after"]) for r in store.query("SELECT * FROM events WHERE kind = 'adopted' ORDER BY id")]
    assert [who for who, _ in acts] == ["root", "root"] and last in acts[0][1]


def test_who_moves_the_operating_point_adopts(reading):  # noqa: F811
    """Both change what all readers see: a reader who is not blind is refused both, in a sentence."""
    store, run, server = reading
    sessions.set_blind(store, STUDY, False, "root")
    ann, root = visitor(server, "ann"), visitor(server, "root")
    assert ann.get(f"/api/learn/{STUDY}").status_code == 200, "she sees what was learnt"
    for path, body in (
        (f"/api/learn/{STUDY}/adopt", {"run": run}),
        (f"/api/results/{STUDY}/point", {"run": run, "source": "dragged", "threshold": 0.5}),
    ):
        refused = ann.post(path, json=body)
        assert refused.status_code == 403 and "Only an administrator" in refused.json()["error"], path
        assert root.post(path, json=body).status_code == 200, path
    assert [r["who"] for r in store.query("SELECT who FROM events WHERE kind = 'adopted'")] == ["root"]
