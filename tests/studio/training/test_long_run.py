"""The metrics of a long run stay bounded, and the page draws what it would have drawn of all of them."""

import pytest

from core.studio.db import journal
from core.studio.jobs.worker import Reporter
from core.studio.training import series


def rows_of(first, last):
    return [(i, name, float(i % 97)) for i in range(first, last + 1) for name in ("loss", "spread")]


def stored(store, run):
    return store.first("SELECT count(*) AS n FROM metrics WHERE run = ?", [run])["n"]


@pytest.mark.parametrize("last", [4001, 9000, 20_000])
def test_what_stays_is_bounded_and_draws_the_same(store, run, last):
    sparse = [(i, "val_loss", 1.0) for i in range(777, last, 777)]
    matrix = [(last - 5, f"aug_confusion_{i}_{j}", 1.0) for i in range(2) for j in range(2)]
    journal.write_metrics(store, run, rows_of(1, last) + sparse + matrix)
    before, shown = series.series(store, run), series.matrix(store, run, "aug_confusion")
    journal.thin_metrics(store, run, last)
    assert series.series(store, run) == before and series.matrix(store, run, "aug_confusion") == shown
    most = 2 * (2 * journal.KEPT + journal.RECENT + 2)
    assert stored(store, run) - len(sparse) - len(matrix) <= most < 2 * 20_000


def test_the_worker_thins_as_a_run_grows(store, run, monkeypatch):
    from core.studio.jobs import queue as jobs

    monkeypatch.setattr(journal, "KEPT", 50)
    monkeypatch.setattr(journal, "RECENT", 20)
    job = jobs.submit(store, [{"step": "pretrain", "run": run}], start=False)
    reporter = Reporter(store, jobs.get_job(store, job))
    most = []
    for last in (500, 1000, 2000, 4000):
        for i in range(last // 2 + 1, last + 1):
            reporter({"step": i, "steps": 4000, "loss": 1.0})
        reporter.flush()
        most.append(stored(store, run))
    assert max(most) <= 2 * 50 + 2 * 20 + 2
