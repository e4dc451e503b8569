"""The bench of quick fits."""

import pytest

from tests.benches import scoring


@pytest.mark.slow
def test_quick_fit():
    row = scoring.quick_fit(quick=True)
    assert row["images"] == 60 and 0 < row["fit_seconds"] < row["seconds_in_all"]
    assert row["cpu_seconds"] > 0 and row["folding"] > 0.5  # a shared machine is noisy
