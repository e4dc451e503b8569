"""The bench of the browser: its parts can be chosen one by one, and a wrong name lists them."""

import pytest

from tests import benches as bench
from tests.benches import clusters


def test_every_part_is_there_and_can_be_run_alone():
    assert clusters.chosen((), False) == list(clusters.PARTS)
    assert set(clusters.QUICK) < set(clusters.PARTS)
    assert clusters.chosen(("umap",), False) == ["umap-1k", "umap-5k", "umap-20k"]
    assert clusters.chosen(("frames-50k", "page"), True) == ["frames-50k", "page-click", "page-lasso"]
    for wrong in ("umap-2", "fram", "nothing"):
        with pytest.raises(ValueError, match="its parts are: tsne-1k, .*page-lasso"):
            clusters.chosen((wrong,), False)


@pytest.mark.long
def test_a_fit_is_timed_first_and_warm_and_nothing_else_runs():
    found = bench.run("clusters", only=["tsne-1k"])
    assert set(found) == {"bench", "fits", "seconds"} and set(found["fits"]) == {"tsne"}
    times = found["fits"]["tsne"]["1k"]
    assert 0 < times["warm_s"] < found["seconds"] and 0 < times["first_s"] < found["seconds"]


def test_a_bench_without_parts_says_so():
    with pytest.raises(ValueError, match="has no parts"):
        bench.run("review", only=["open"])
