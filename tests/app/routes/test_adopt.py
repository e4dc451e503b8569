"""A scored run is put first among a study's detectors by one call, and taken back by another."""

from __future__ import annotations

import pytest

from core.studio.review import sessions
from core.studio.review.cases import scored_runs
from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY, add_readings


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
