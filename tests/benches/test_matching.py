"""The short form of the bench that matches lesions."""

import pytest

from tests.benches import matching


@pytest.mark.longest
def test_the_figures_come(real):
    found = matching.match(quick=True, data=str(real("brain").parent), only=("brain", "cxr"))
    brain, chest = found["rows"]
    assert {"found", "preset", "best", "varied", "paper", "found_anywhere"} <= set(brain) and "no masks" in chest[
        "missing"
    ]
    assert brain["best"] <= brain["preset"] and found["ratio"] is None
