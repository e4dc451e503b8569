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


@pytest.mark.longest
def test_each_draw_has_three_trainings(real):
    rows = matching.matched(quick=True, data=str(real("brain").parent), only=("brain",))["rows"]
    assert [row["arm"] for row in rows] == ["none", "preset", "matched", "varied"]
    figures = [row[of] for row in rows for of in ("head", "blend") if of in row]
    assert len(figures) == 7 and all(
        0 <= f[name] <= 1 for f in figures for name in ("auroc", "pixel_auroc", "dice", "pro")
    )
