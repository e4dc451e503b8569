"""What the Training tab reads of runs at work: the alarm, jobs, differences."""

from __future__ import annotations

import pytest

from core.studio.db import journal
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

    from core.studio.medmix.batch_strip import BatchStrip

    strips = BatchStrip(store)
    a, b = strips.strip(run, 0, count=4, side=32), strips.strip(run, 1, count=4, side=32)
    assert a.shape == (4 * 32, 4 * 32, 3) and not np.array_equal(a, b)
    assert np.array_equal(a, BatchStrip(store).strip(run, 0, count=4, side=32))
