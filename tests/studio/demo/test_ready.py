"""The ready demo study: it opens in seconds, holds what the tour shows, and is what today's code would make."""

from __future__ import annotations

import io
import json
import sqlite3
import time
import zipfile

import numpy as np
import pytest
from PIL import Image

from core.studio.bundle import import_bundle
from core.studio.bundle.contents import tables
from core.studio.clusters import library
from core.studio.db import audit, opening
from core.studio.db.home import Home
from core.studio.db.seals import Damaged
from core.studio.demo import study as demo
from core.studio.demo import tour
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import cases, decisions, masks
from core.studio.review.context import RequestContext
from core.studio.runs import learnt, marks, pipeline, weights
from core.studio.runs import records as runs
from core.studio.runs.readings import read_maps
from tests.tools import demo as tool

SECONDS = 10


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """(store, seconds that the import took) of a fresh home with the ready study."""
    store = opening.open(Home.at(tmp_path_factory.mktemp("ready") / "home"))
    began = time.monotonic()
    job = demo.offer(store, "cpu")
    seconds = time.monotonic() - began
    assert job and demo.offer(store, "cpu") is None, "it is opened once"
    yield store, seconds
    store.close()


def run_of(store, method: str) -> dict:
    return next(run for run in runs.list_runs(store, "demo") if run["method"] == method)


def test_it_opens_within_seconds_with_scores_maps_marks_and_figures(opened):
    store, seconds = opened
    assert seconds < SECONDS
    splits = {row["split"]: row["n"] for row in store.query("SELECT split, count(*) AS n FROM cases GROUP BY split")}
    assert splits["train"] + splits["holdout"] == tool.COUNTS["train"] and splits["test"] == 100
    test = [row["id"] for row in store.query("SELECT id FROM cases WHERE split = 'test'")]
    for run in cases.scored_runs(store, "demo"):
        assert np.isfinite(read_maps(store, run["id"], np.array(test))).all(), "each test image has a heat map"
        row = store.first("SELECT row FROM evaluations WHERE run = ?", [run["id"]])
        assert 0.5 < json.loads(row["row"])["auroc"] <= 1
    assert [run["method"] for run in cases.scored_runs(store, "demo")] == ["blend", "learnt"]
    assert tour.found(store) in test and tour.state(store)["stored"] == run_of(store, "pmsacl")["id"]
    history = runs.run_folder(store, run_of(store, "pmsacl")["id"]) / "history.jsonl"
    assert len(history.read_text().splitlines()) > 50, "the curves of its training"
    for row in store.query("SELECT key FROM cluster_maps"):
        drawn = library.open_map(store, row["key"])
        assert np.isfinite(drawn.coords).all() and len(drawn.points) > 150
    assert learnt.offered(store, "demo")["masks"] == tool.MARKED
    assert audit.verify(store)["ok"]


def test_what_was_learnt_from_its_marks_is_a_gain_and_is_shown_on_unseen_cases(opened):
    store, _ = opened
    run = run_of(store, "learnt")
    found = run["summary"]["comparison"]
    assert (found["verdict"], found["run"]) == ("better", run["id"]) and marks.repeat_problem(store, run) is None
    (_, before, after), (normals, _, alarms) = found["flags"]["abnormal"], found["flags"]["normal"]
    assert after > before and alarms <= normals / 4
    seen = set(run["config"]["marks"]["cases"])
    assert found["pictured"] and not seen & set(found["pictured"])
    known = {row["id"] for row in store.query("SELECT id FROM cases WHERE split = 'test'")}
    assert {*seen, *found["pictured"]} <= known, "numbers of this home"
    assert " instead of " in learnt.headline(run)


def test_it_is_what_todays_code_makes(opened, tmp_path):
    store, _ = opened
    anew = f"the ready demo study is older than the code: make it anew by `{tool.COMMAND}`"
    assert demo.READY.stat().st_size <= tool.MOST
    with zipfile.ZipFile(demo.READY) as bundle:
        (tmp_path / "rows.sqlite").write_bytes(bundle.read("rows.sqlite"))
        images = {name.split("/")[-1]: name for name in bundle.namelist() if name.endswith(".jpg")}
        shown = {name: np.asarray(Image.open(io.BytesIO(bundle.read(path)))) for name, path in images.items()}
    rows = sqlite3.connect(tmp_path / "rows.sqlite")
    for name, table in tables(store).items():
        there = [column[1] for column in rows.execute(f'PRAGMA table_info("{name}")')]
        assert there == table.names, f"{name}: {anew}"
    rows.close()
    assert len(shown) == sum(tool.COUNTS.values()), anew
    for split in tool.COUNTS:
        name = split.split("_")[-1]
        drawn = tool.drawn(split, 2)[1].image.astype(float)
        assert np.abs(drawn - shown[f"{name}-001.jpg"]).mean() < 4, f"{name}: {anew}"


@pytest.mark.slow
def test_a_table_that_changed_is_noticed(opened, tmp_path):
    other = opening.open(Home.at(tmp_path / "home"))
    other.execute("ALTER TABLE cases ADD COLUMN hue REAL")
    with pytest.raises(AssertionError, match="python -m tests.tools.demo"):
        test_it_is_what_todays_code_makes((other, 0.0), tmp_path)
    other.close()


def test_a_training_that_came_without_weights_says_so(opened):
    store, _ = opened
    encoder = run_of(store, "pmsacl")["id"]
    with pytest.raises(Damaged, match="imported without weights"):
        pipeline.make_weights(store, encoder)


@pytest.mark.longest
def test_the_first_look_has_its_weights_again_and_more_marks_are_planned_on_it(tmp_path):
    store = opening.open(Home.at(tmp_path / "home"))
    demo.offer(store, "cpu")
    worker.run_queue(store)
    assert {job["status"] for job in jobs.list_jobs(store)} == {"done"}
    look = run_of(store, "blend")
    weights.check(store, look["id"]), weights.check(store, look["parent"])
    assert look["status"] == "done" and learnt.planned(store, look["id"])["method"] == "learnt"
    before = store.query("SELECT case_id, score_roi FROM readings WHERE run = ? ORDER BY case_id", [look["id"]])
    pipeline.score_run(store, look["id"], "cpu")
    after = store.query("SELECT case_id, score_roi FROM readings WHERE run = ? ORDER BY case_id", [look["id"]])
    assert [r["score_roi"] for r in after] == pytest.approx([r["score_roi"] for r in before], abs=0.1)
    store.close()


@pytest.mark.slow
def test_reset_keeps_all_that_came_with_it(tmp_path):
    store = opening.open(Home.at(tmp_path / "home"))
    demo.offer(store, "cpu")
    came = {run["id"] for run in runs.list_runs(store, "demo")}
    maps = store.query("SELECT key FROM cluster_maps ORDER BY key")
    headline = learnt.headline(run_of(store, "learnt"))
    context = RequestContext.read(store, "ann", case_id=tour.found(store))
    masks.save(context, np.eye(tool.SIDE, dtype=np.uint8))
    decisions.decide(context, "abnormal")
    pipeline.create_untrained(store, "demo", 32)
    tour.reset(store, "ann")
    assert {run["id"] for run in runs.list_runs(store, "demo")} == came
    assert store.query("SELECT key FROM cluster_maps ORDER BY key") == maps
    assert learnt.headline(run_of(store, "learnt")) == headline
    assert [row["reader"] for row in store.query("SELECT DISTINCT reader FROM current_reviews")] == [demo.READER]
    assert learnt.offered(store, "demo")["masks"] == tool.MARKED
    store.close()


def test_a_bundle_that_came_once_is_refused_a_second_time(opened):
    store, _ = opened
    with pytest.raises(ValueError, match="already a study"):
        import_bundle(store, demo.READY, demo.READER)
