"""A few readers for seconds: no error, nothing lost. `bench load` has twenty for ten minutes beside a training."""

import pytest

from tests.benches import _server as memory
from tests.benches import load


@pytest.mark.long
def test_readers_decide_at_once():
    found = load.load(quick=True)
    assert found["errors"] == 0, found["first_errors"]
    assert found["lost"] == 0 and found["decisions"] > 0
    assert set(found["decision_ms"]) == {"p50", "p95", "most"}
    assert all(memory > 0 for _, memory in found["memory_mb"])


@pytest.mark.long
def test_the_memory_by_decision_on_a_server_whose_threads_end():
    found = load.load(quick=True, decisions=60)
    assert found["errors"] == 0, found["first_errors"]
    assert found["lost"] == 0 and found["decisions"] >= 60
    counts = [count for count, _ in found["memory_mb"]]
    assert counts == sorted(set(counts)) and all(memory > 0 for _, memory in found["memory_mb"])


def test_the_slope_of_the_memory_is_that_of_the_second_half():
    curve = [[s, 100.0 * s if s < 50 else 5000 + (s - 50) / 60] for s in range(101)]
    assert memory.slope(curve, 3600) == 60.0 and memory.slope(curve[:2], 3600) is None
