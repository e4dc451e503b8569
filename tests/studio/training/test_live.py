"""What the Training tab reads of runs at work: the alarm, jobs, differences, metrics thinned for the screen."""

import pytest

from core.studio.db import journal
from core.studio.jobs.worker import Reporter
from core.studio.runs import records as runs
from core.studio.training import live
from core.studio.training import requests as training


def test_alarm_within_ten_steps_of_the_fall_and_none_for_a_healthy_run(store, run):
    alarms = live.Alarms(store)
    healthy = [(i, "spread", 1.0 + 0.01 * i) for i in range(1, 40)]
    journal.write_metrics(store, run, healthy + [(i, "class_distance", 0.5) for i in range(1, 40)])
    row = runs.get_run(store, run)
    assert alarms.of(row) is None
    falling = [(i, "spread", 0.01) for i in range(40, 50)]
    journal.write_metrics(store, run, falling + [(i, "class_distance", 0.001) for i in range(40, 50)])
    assert "collapsed" in alarms.of(row)
    assert live.Alarms(store).of(row) == alarms.of(row), "fed at once or in parts, the same"


def test_differences_name_nested_settings(store, run):
    a = runs.get_run(store, run)["config"]
    b = {**a, "lr": 0.5, "medmix": {**a["medmix"], "k": 5}}
    assert live.differences([a, b]) == [
        {"key": "lr", "values": [a["lr"], 0.5]},
        {"key": "medmix.k", "values": [a["medmix"]["k"], 5]},
    ]
    assert live.differences([a, a]) == []


def test_one_chain_trains_fits_scores_and_evaluates(store, run):
    config = runs.get_run(store, run)["config"]
    made = training.start(store, "tiny", config, "mine", {"padim": {}, "igd": {}}, wake=False)
    job = live.jobs_of_runs(store)[made["run"]]
    wanted = ["pretrain", "fit", "score", "evaluate", "fit", "score", "evaluate"]
    assert [s["step"] for s in job["chain"]] == wanted
    assert runs.get_run(store, made["run"])["config"] == config
    left = {row["id"]: row["left"] for row in live.overview(store, "tiny")}
    assert all(left[one] > 0 for one in (made["run"], *made["fits"])) and left[run] is None
    training.act(store, made["run"], "pause")
    rows = {row["id"]: row["status"] for row in live.overview(store, "tiny")}
    shown = live.detail(store, live.Alarms(store), made["run"])["children"]
    assert {rows[one] for one in made["fits"]} == {"paused"} == {child["status"] for child in shown}, (
        "what waits for a paused job does not wait for its turn"
    )
    training.act(store, made["run"], "resume")
    assert {row["status"] for row in live.overview(store, "tiny") if row["id"] in made["fits"]} == {"queued"}
    with pytest.raises(ValueError, match="cancel it before"):
        training.delete(store, made["run"])
    training.act(store, made["run"], "cancel")
    assert training.delete(store, made["run"]) >= 0
    assert {r["id"] for r in runs.list_runs(store)} == {run}


def test_more_classes_than_the_augmentation_makes_are_refused(store, run):
    config = runs.get_run(store, run)["config"]
    with pytest.raises(ValueError, match="raise its own k first"):
        training.checked({**config, "k": 5})


@pytest.mark.slow
def test_dry_run_measures_real_steps(store, run):
    from core.studio.training.dryrun import measure

    found = measure(store.home.path, "tiny", runs.get_run(store, run)["config"], "cpu")
    assert found["fits"] and found["seconds_step"] > 0 and found["memory"] > 10**7
    assert found["seconds_epoch"] == pytest.approx(found["seconds_step"] * found["per_epoch"])


def test_the_strip_shows_the_very_batch(store, run):
    import numpy as np

    from core.studio.medmix.preview import BatchStrip

    strips = BatchStrip(store)
    a, b = strips.strip(run, 0, count=4, side=32), strips.strip(run, 1, count=4, side=32)
    assert a.shape == (4 * 32, 4 * 32, 3) and not np.array_equal(a, b)
    assert np.array_equal(a, BatchStrip(store).strip(run, 0, count=4, side=32))


def test_a_long_run_is_thinned_and_comes_in_parts(store, run):
    steps = 5000
    rows = [(i, "loss", float(i)) for i in range(1, steps + 1)] + [(i, "val_loss", 1.0) for i in range(777, steps, 777)]
    journal.write_metrics(store, run, rows)
    first = live.series(store, run)
    assert first["reset"] and first["last"] == steps
    found = [s for s, _ in first["series"]["loss"]]
    assert len(found) <= 2 * live.POINTS + 3 and found[0] == 1 and found[-1] == steps
    assert [s for s, _ in first["series"]["val_loss"]] == list(range(777, steps, 777)), "sparse ones are whole"
    journal.write_metrics(store, run, [(steps + 1, "loss", 0.0)])
    more = live.series(store, run, first["last"], first["stride"])
    assert not more["reset"] and more["series"] == {"loss": [[steps + 1, 0.0]]}
    assert live.series(store, run, 10**9, first["stride"])["reset"], "a page that knows more than the store starts anew"


def test_matrices_come_whole_and_stay_out_of_the_series(store, run):
    cells = [(7, f"aug_confusion_{i}_{j}", float(4 * i + j)) for i in range(4) for j in range(4)]
    journal.write_metrics(store, run, [(3, *c[1:]) for c in cells] + cells + [(7, "loss", 1.0)])
    found = live.matrix(store, run, "aug_confusion")
    assert found == {"step": 7, "rows": [[4.0 * i + j for j in range(4)] for i in range(4)]}
    assert set(live.series(store, run)["series"]) == {"loss"}
    assert live.matrix(store, run, "class_distances") is None


def test_the_workers_reports_become_matrices(store, run):
    from core.studio.jobs.worker import flatten

    rows = flatten({"aug_confusion": [[1.0, 2.0], [3.0, 4.0]], "loss": 1.0, "alarm": "words", "list": [5, 6]})
    journal.write_metrics(store, run, [(1, name, value) for name, value in rows])
    assert live.matrix(store, run, "aug_confusion")["rows"] == [[1.0, 2.0], [3.0, 4.0]]
    assert dict(rows)["list_1"] == 6


def rows_of(first, last):
    return [(i, name, float(i % 97)) for i in range(first, last + 1) for name in ("loss", "spread")]


def stored(store, run):
    return store.first("SELECT count(*) AS n FROM metrics WHERE run = ?", [run])["n"]


@pytest.mark.parametrize("last", [4001, 9000, 20_000])
def test_what_stays_is_bounded_and_draws_the_same(store, run, last):
    sparse = [(i, "val_loss", 1.0) for i in range(777, last, 777)]
    matrix = [(last - 5, f"aug_confusion_{i}_{j}", 1.0) for i in range(2) for j in range(2)]
    journal.write_metrics(store, run, rows_of(1, last) + sparse + matrix)
    before, shown = live.series(store, run), live.matrix(store, run, "aug_confusion")
    journal.thin_metrics(store, run, last)
    assert live.series(store, run) == before and live.matrix(store, run, "aug_confusion") == shown
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
