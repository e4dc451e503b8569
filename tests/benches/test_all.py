"""`bench all`: one list with each benchmark's figure and whether its aim is met. Times are never checked here."""

import os

import pytest

from tests import benches as bench
from tests.benches import scoring, stages, steps


def test_each_aim_belongs_to_a_benchmark():
    assert set(bench.aims()) <= set(bench.titles())


def test_rows_say_what_was_found_and_what_failed(monkeypatch):
    def run(name, quick, device):
        if name == "start":
            raise RuntimeError("no page")
        return {"bench": name, "ratio": {"pretrain": 1.05, "augment": 3.0}.get(name, 10.0)}

    monkeypatch.setattr(bench, "run", run)
    rows = {row["name"]: row for row in bench.run_all()["benches"]}
    assert set(rows) == set(bench.aims())
    assert rows["pretrain"]["met"] and not rows["augment"]["met"] and rows["padim-fit"]["met"]
    assert rows["start"]["error"] == "RuntimeError: no page" and rows["start"]["met"] is False
    with pytest.raises(ValueError, match="no benchmark with an aim is called 'fuzz'"):
        bench.run_all(only=["fuzz"])


@pytest.mark.long
def test_igd_scores_the_same_in_batches_as_one_by_one():
    row = scoring.igd_score(quick=True)
    assert row["difference"] < 1e-3 and row["patches"] == 25


@pytest.mark.slow
def test_igd_trains_on_every_patch_either_way(monkeypatch):
    """The small steps that are not taken are multiplied: together they have as many patches as the large one."""
    monkeypatch.setattr(steps, "medians", lambda whats, rounds, device: [2.0, sum(w() is None for w in whats[1:])])
    row = steps.igd_train(quick=True)
    assert row["patches"] == 2 * 25
    assert (row["step_seconds"], row["two_by_two_seconds"]) == (2.0, 25 / 2) and row["ratio"] == 6.25


@pytest.mark.longest
@pytest.mark.timeout(900)  # seconds; learning alone takes some minutes
def test_each_verb_is_measured(real):
    found = stages.stages(quick=True, data=str(real("idrid")))["stages"]
    assert list(found) == ["import", "look", "pretrain", "fit and score", "evaluate", "learn"]
    assert all(stage["cpu_seconds"] > 0 and stage["peak_mib"] > 100 for stage in found.values())
    assert all(stage["cpu_seconds"] < 1.2 * os.cpu_count() * stage["seconds"] for stage in found.values())
