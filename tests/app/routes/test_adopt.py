"""A scored run is put first among a study's detectors by one call, and taken back by another."""

from __future__ import annotations

from core.studio.review.cases import scored_runs
from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY, add_readings


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
