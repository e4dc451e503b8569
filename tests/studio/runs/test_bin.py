"""What is removed stays in the bin for a week, out of sight, and comes back as it was."""

from __future__ import annotations

import pytest

from core.studio.db import audit
from core.studio.db.store import NotFound
from core.studio.ingest import studies
from core.studio.review.cases import scored_runs
from core.studio.runs import bin
from core.studio.runs import records as runs
from core.studio.training import live
from tests.studio.review.conftest import STUDY, decide, draw_folder, room  # noqa: F401


@pytest.fixture
def encoder(room):  # noqa: F811
    """(store, encoder run, fit run with readings): the fit of the study's one scored run, on an encoder."""
    store, fit = room
    made = runs.create_run(store, STUDY, "pretrain", "pmsacl", {})
    store.execute("UPDATE runs SET parent = ? WHERE id = ?", [made, fit])
    (runs.run_folder(store, made) / "encoder.json").write_text("{}")
    return store, made, fit


def rows(store) -> list:
    return store.query("SELECT * FROM readings ORDER BY run, case_id")


def test_a_run_goes_with_its_fits_and_comes_back_whole(encoder):
    store, made, fit = encoder
    before = rows(store)
    assert bin.put_run(store, made, "ann") > 0
    assert scored_runs(store, STUDY) == [] and runs.list_runs(store, archived=None) == []
    (row,) = bin.contents(store)
    assert (row["kind"], row["id"], row["study"]) == ("run", made, STUDY) and row["until"] > row["binned"]
    assert bin.empty(store) == 0, "not before a week is over"
    bin.restore(store, "run", made, "ann")
    assert [r["id"] for r in scored_runs(store, STUDY)] == [fit] and rows(store) == before
    assert (runs.run_folder(store, made) / "encoder.json").exists() and bin.contents(store) == []
    assert [e["kind"] for e in audit.trail(store, limit=2)] == ["restore", "bin"]


def test_after_a_week_it_is_gone(encoder):
    store, made, fit = encoder
    folder = runs.run_folder(store, made)
    bin.put_run(store, made, "ann")
    store.execute("UPDATE runs SET binned = '2020-01-01T00:00:00.000Z'")
    assert bin.empty(store) == 1
    assert store.query("SELECT id FROM runs") == [] and rows(store) == [] and not folder.exists()
    with pytest.raises(NotFound, match="no run"):
        bin.restore(store, "run", made, "ann")


def test_a_fit_that_was_binned_before_its_encoder_stays_when_the_encoder_comes_back(encoder):
    store, made, fit = encoder
    bin.put_run(store, fit, "ann")
    store.execute("UPDATE runs SET binned = '2020-01-01T00:00:00.000Z' WHERE id = ?", [fit])
    bin.put_run(store, made, "ann")
    assert {r["id"] for r in bin.contents(store)} == {made, fit}
    bin.restore(store, "run", made, "ann")
    assert [r["id"] for r in bin.contents(store)] == [fit]
    bin.put_run(store, made, "ann")
    bin.restore(store, "run", fit, "ann")
    assert bin.contents(store) == [], "a fit comes back with its encoder"


def test_a_study_comes_back_and_keeps_its_name_meanwhile(room, tmp_path):  # noqa: F811
    store, fit = room
    before = rows(store)
    bin.put_study(store, STUDY, "root")
    assert studies.list_studies(store) == [] and live.live_status(store)["studies"] == []
    with pytest.raises(NotFound, match="in the bin"):
        studies.show_study(store, STUDY)
    with pytest.raises(ValueError, match="in the bin: restore it"):
        studies.import_study(store, STUDY, draw_folder(tmp_path / "again"))
    bin.restore(store, "study", STUDY, "root")
    assert [s["id"] for s in studies.list_studies(store)] == [STUDY] and rows(store) == before
    assert [r["id"] for r in scored_runs(store, STUDY)] == [fit]


def test_a_study_is_deleted_for_good(room):  # noqa: F811
    store, _ = room
    bin.put_study(store, STUDY, "root")
    assert bin.empty(store, days=0) == 1
    assert store.query("SELECT id FROM cases") == [] and not (store.home.files / STUDY).exists()


def test_a_study_with_reviews_and_a_running_run_are_refused(encoder):
    store, made, fit = encoder
    runs.update_run(store, fit, status="running")
    with pytest.raises(ValueError, match="is running"):
        bin.put_run(store, made, "ann")
    decide(store, store.one("SELECT id FROM cases WHERE split = 'test'")["id"], "ann", "normal")
    with pytest.raises(ValueError, match="contains 1 reviews"):
        bin.put_study(store, STUDY, "root")
    assert bin.contents(store) == []
