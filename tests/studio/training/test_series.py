"""Series thinned for the screen, and matrices of the latest step."""

from core.studio.db import journal
from core.studio.training import series


def test_a_long_run_is_thinned_and_comes_in_parts(store, run):
    steps = 5000
    rows = [(i, "loss", float(i)) for i in range(1, steps + 1)] + [(i, "val_loss", 1.0) for i in range(777, steps, 777)]
    journal.write_metrics(store, run, rows)
    first = series.series(store, run)
    assert first["reset"] and first["last"] == steps
    found = [s for s, _ in first["series"]["loss"]]
    assert len(found) <= 2 * series.POINTS + 3 and found[0] == 1 and found[-1] == steps
    assert [s for s, _ in first["series"]["val_loss"]] == list(range(777, steps, 777)), "sparse ones are whole"
    journal.write_metrics(store, run, [(steps + 1, "loss", 0.0)])
    more = series.series(store, run, first["last"], first["stride"])
    assert not more["reset"] and more["series"] == {"loss": [[steps + 1, 0.0]]}
    assert series.series(store, run, 10**9, first["stride"])["reset"], (
        "a page that knows more than the store starts anew"
    )


def test_matrices_come_whole_and_stay_out_of_the_series(store, run):
    cells = [(7, f"aug_confusion_{i}_{j}", float(4 * i + j)) for i in range(4) for j in range(4)]
    journal.write_metrics(store, run, [(3, *c[1:]) for c in cells] + cells + [(7, "loss", 1.0)])
    found = series.matrix(store, run, "aug_confusion")
    assert found == {"step": 7, "rows": [[4.0 * i + j for j in range(4)] for i in range(4)]}
    assert set(series.series(store, run)["series"]) == {"loss"}
    assert series.matrix(store, run, "class_distances") is None


def test_the_workers_reports_become_matrices(store, run):
    from core.studio.jobs.worker import flatten

    rows = flatten({"aug_confusion": [[1.0, 2.0], [3.0, 4.0]], "loss": 1.0, "alarm": "words", "list": [5, 6]})
    journal.write_metrics(store, run, [(1, name, value) for name, value in rows])
    assert series.matrix(store, run, "aug_confusion")["rows"] == [[1.0, 2.0], [3.0, 4.0]]
    assert dict(rows)["list_1"] == 6
