"""What the page shows of a report: what is made, what is missing and why, and the job that makes it."""

from __future__ import annotations

import json

import pytest

from core.studio.db.store import NotFound
from core.studio.jobs import queue as jobs
from core.studio.report import asked
from core.studio.report.arms import Arm
from core.studio.report.board import board, missing
from core.studio.report.tables import TABLES, Table
from core.studio.runs.pipeline import UNTRAINED

ARM = Arm("PaDiM", "padim", UNTRAINED, fit={"channels": 20})


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setitem(TABLES, "detection", lambda: Table("detection", "Anomaly detection", ("auroc",), (ARM,)))


def test_a_study_without_a_report_has_only_the_papers_numbers(store, tiny_study, table):
    shown = board(store, tiny_study, asked.settings(store, tiny_study, tables=["detection"], seeds=3), roi=False)
    assert (shown["done"], shown["wanted"], shown["job"], shown["files"], shown["made"]) == (0, 3, None, [], None)
    (row,) = shown["tables"][0]["rows"]
    assert row["values"] == {} and row["paper"]["auroc"] == 0.943 and not shown["beside"]["own"]
    assert row["seeds"] == [{"seed": seed, "fit": None, "encoder": None} for seed in range(3)]


def test_what_the_last_report_could_not_make_is_said_until_it_is_made(store, tiny_study, table):
    folder = asked.folder(store, tiny_study)
    folder.mkdir(parents=True)
    lines = {"detection": [{"label": "PaDiM", "error": "no weights"}]}
    (folder / "report.json").write_text(json.dumps({"tables": lines, "made": "2026-11-22T02:00:00+00:00"}))
    shown = board(store, tiny_study, asked.settings(store, tiny_study, tables=["detection"]), roi=True)
    assert shown["tables"][0]["rows"][0]["failed"] == "no weights"
    assert shown["files"] == ["json"] and shown["made"].startswith("2026")


def test_missing_cells_take_the_time_of_what_they_train(store, tiny_study, monkeypatch):
    trained = [Arm(name, "padim", pretrain={"k": 2}, fit={"channels": c}) for name, c in (("a", 20), ("b", 30))]
    table = Table("detection", "Anomaly detection", ("auroc",), (ARM, *trained))
    monkeypatch.setitem(TABLES, "detection", lambda: table)

    def asks(seeds, rows=None):
        return missing(
            store, tiny_study, asked.settings(store, tiny_study, tables=["detection"], seeds=seeds, rows=rows)
        )

    one, both = (asks(1, rows)["seconds"] for rows in (["a"], ["a", "b"]))
    fit = asks(1, ["PaDiM"])["seconds"]
    assert one < both < 2 * one and fit < one, "the encoder of two rows is trained once"
    three = asks(3)
    assert three["cells"] == 9 and three["seconds"] == pytest.approx(3 * asks(1)["seconds"], rel=0.01)
    rows = three["rows"]["detection"]
    assert rows.keys() == {"PaDiM", "a", "b"} and sum(rows.values()) == pytest.approx(three["seconds"], abs=0.1)


def test_one_report_at_a_time(store, tiny_study, no_worker):
    settings = asked.settings(store, tiny_study, seeds=1, device="cpu", dataset=None)
    job = asked.submit(store, settings)
    assert asked.job_of(store, tiny_study)["id"] == job and "dataset" not in settings
    assert asked.submit(store, settings) == job
    jobs.cancel(store, job)
    assert asked.submit(store, settings) > job


def test_what_there_is_not_is_named(store, tiny_study):
    with pytest.raises(NotFound):
        asked.settings(store, "nobody")
    with pytest.raises(ValueError, match="tables are"):
        asked.settings(store, tiny_study, tables=["moon"])
