import math

import numpy as np
import pytest
from scipy.stats import binom

from core.studio.db import journal
from core.studio.db.store import NotFound
from core.studio.runs import records as runs
from core.studio.runs.readings import StoredMaps, pack_map
from core.studio.runs.results import conformal


@pytest.fixture
def run(store, tiny_study):
    return runs.create_run(store, tiny_study, "pretrain", "pmsacl", {"lr": 0.1, "deep": {"k": 3}}, name="first")


def test_a_run_keeps_its_configuration_and_where_it_comes_from(store, run):
    row = runs.get_run(store, run)
    assert row["config"] == {"lr": 0.1, "deep": {"k": 3}}
    assert (row["name"], row["status"], row["kind"]) == ("first", "new", "pretrain")
    assert "torch" in row["packages"] and runs.run_folder(store, run).is_dir()


def test_a_configuration_is_fixed_once_the_run_has_started(store, run):
    runs.update_run(store, run, config={"lr": 0.2})
    runs.update_run(store, run, status="running")
    with pytest.raises(ValueError, match="clone"):
        runs.update_run(store, run, config={"lr": 0.3})
    assert runs.get_run(store, runs.clone_run(store, run, lr=0.3))["config"] == {"lr": 0.3}
    with pytest.raises(ValueError, match="cannot be changed"):
        runs.update_run(store, run, study="other")


def test_metrics_come_back_by_name_and_step(store, run):
    journal.write_metrics(store, run, [(1, "loss", 3.0), (2, "loss", 2.0), (1, "lr", 0.1), (3, "loss", math.nan)])
    journal.write_metrics(store, run, [(2, "loss", 2.5)])
    assert journal.metrics(store, run) == {"loss": [(1, 3.0), (2, 2.5), (3, None)], "lr": [(1, 0.1)]}
    assert journal.metrics(store, run, after=1) == {"loss": [(2, 2.5), (3, None)]}


def test_log(store, run):
    for i in range(5):
        journal.log(store, run, f"line {i}")
    assert [line["line"] for line in journal.read_log(store, run, last=2)] == ["line 3", "line 4"]


def test_parents(store, run, tiny_study):
    fit = runs.create_run(store, tiny_study, "fit", "padim", {}, run)
    with pytest.raises(ValueError, match="not a pre-training run"):
        runs.create_run(store, tiny_study, "fit", "padim", {}, fit)
    with pytest.raises(ValueError, match=fit):
        runs.delete_run(store, run)
    (runs.run_folder(store, fit) / "weights").write_bytes(b"1234")
    assert runs.delete_run(store, fit) == 4
    runs.delete_run(store, run)
    assert runs.list_runs(store) == []


def test_what_is_not_there_is_said(store, run):
    with pytest.raises(NotFound, match=run):
        runs.get_run(store, "nobody")
    with pytest.raises(NotFound, match="unknown study"):
        runs.create_run(store, "nowhere", "pretrain", "pmsacl", {})


def test_flags_at_most_the_promised_share_in_the_mean():
    rng, flagged = np.random.default_rng(0), 0
    for _ in range(200):
        flagged += conformal(rng.normal(size=80), rng.normal(size=50))["flagged"]
    assert flagged <= binom.ppf(0.999, 200 * 50, 0.05)
    assert flagged > 0


def test_too_few_held_out_normals_flag_nothing_and_say_so():
    row = conformal(np.arange(5.0), np.array([100.0, 200.0]))
    assert row["flagged"] == 0 and row["threshold"] is None
    assert row["held"] == 5 and row["needed"] == 19
    assert str(row["needed"]) in row["guarantee"]


def test_patients_are_counted_where_they_are_known():
    held = np.arange(400.0)
    row = conformal(held, np.array([500.0]), np.repeat(np.arange(10), 40))
    assert (row["held"], row["needed"], row["flagged"]) == (10, 19, 0) and "patients" in row["guarantee"]
    assert conformal(held, np.array([500.0]), np.repeat(np.arange(20), 20))["flagged"] == 1


def test_maps_of_no_image_are_an_empty_stack():
    class Kept:
        def first(self, query, values):
            return pack_map(np.full((3, 4), values[1], np.float32))

    maps = StoredMaps(Kept(), "run", np.array([5, 6]))
    assert maps[np.array([1, 0])][:, 0, 0].tolist() == [6, 5]
    assert maps[np.array([], int)].shape == (0, 3, 4), "as where no image of a block has a lesion"
