"""A few readers for seconds: no error, nothing lost. `bench load` has twenty for ten minutes beside a training."""

from __future__ import annotations

from app.benches import load


def test_readers_decide_at_once():
    found = load.run(quick=True)
    assert found["errors"] == 0, found["first_errors"]
    assert found["lost"] == 0 and found["decisions"] > 0
    assert set(found["decision_ms"]) == {"p50", "p95", "most"}
