"""The review room's bench, on lists small enough for a test: every filter has its figures, every case is found."""

import pytest

from core.studio.review import worklist
from tests.benches import review


@pytest.mark.slow
def test_every_filter_has_its_figures(monkeypatch):
    monkeypatch.setattr(review, "SIZES", (300, 600))
    monkeypatch.setattr(worklist, "SORTS", ("percentile", "name"))
    found = review.review()
    assert set(found["cases"]) == {"300", "600"} and found["ratio"] > 0
    for figures in found["cases"].values():
        filters = figures["filters_ms"]
        assert set(filters) == set(review.FILTERS)
        for act in ("page", "counts", "next"):
            assert all(f[act] >= 0 and f[f"{act}_cpu"] >= 0 for f in filters.values())
        worst = max(f["page"] for f in filters.values())
        assert abs(figures["page_worst_ms"] - worst) < 0.1
