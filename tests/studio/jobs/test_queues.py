"""Two queues: jobs that only read finished runs go on beside a training; each keeps its order."""

import os

import pytest

from app.commands import main
from core.studio.incoming import job as incoming
from core.studio.incoming import watch
from core.studio.ingest import cache, studies
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from core.studio.training import live
from core.studio.training import requests as training
from tests.conftest import picture, write
from tests.studio.jobs.conftest import add, status

pytestmark = pytest.mark.usefixtures("no_worker")


def queue(store, job):
    return jobs.get_job(store, job)["queue"]


def test_what_trains_is_long_and_what_reads_finished_runs_is_short(store, run):
    other = runs.create_run(store, runs.get_run(store, run)["study"], "pretrain", "pmsacl", {})
    first = jobs.submit(store, [{"step": v, "run": run} for v in ("pretrain", "fit", "score")], start=False)
    assert queue(store, first) == "long"
    assert [queue(store, add(store, verb, other)) for verb in ("score", "evaluate", "embed", "project")] == [
        "short"
    ] * 4
    assert queue(store, add(store, "import", study="tiny")) == "short"
    assert queue(store, add(store, "weights", other)) == "long"
    behind = add(store, "score", run)
    assert queue(store, behind) == "long" and f"job {first}" in jobs.get_job(store, behind)["message"]
    jobs.cancel(store, first)
    jobs.pause(store, behind)
    jobs.resume(store, behind, start=False)
    assert queue(store, behind) == "short", "nothing of the run is ahead any more"


def test_a_watched_and_an_added_image_are_scored_while_a_training_runs(store, tiny_study, scored, tmp_path, trains):
    folder = tmp_path / "drop"
    folder.mkdir()
    watch.set_watch(store, tiny_study, str(folder), "root")
    write(folder / "watched.png", picture(50)[0])
    assert watch.look(store, lambda: 0.0) == []
    assert len(watch.look(store, lambda: watch.SETTLE)) == 1
    assert worker.run_queue(store, "short") == 1
    studies.add_cases(store, tiny_study, [write(tmp_path / "added.png", picture(51)[0])])
    add(store, "import", study=tiny_study)
    assert worker.run_queue(store, "short") == 1
    read = "SELECT c.name FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.label = 'unknown'"
    assert {r["name"] for r in store.query(read, [scored])} == {"watched.png", "added.png"}
    assert status(store, trains.job) == "running" and not trains.may_end.is_set()
    trains.may_end.set()
    trains.thread.join(60)
    assert status(store, trains.job) == "done"


@pytest.mark.slow
def test_cases_that_come_while_a_run_is_scored_for_the_first_time(store, tiny_study, scored, tmp_path, monkeypatch):
    """The import leaves them to that scoring, which takes them in; no case is left unscored and none read twice."""
    fit = pipeline.create_fit(store, runs.get_run(store, scored)["parent"], "padim", {"channels": 20})
    pipeline.fit_run(store, fit, "cpu")
    add(store, "score", fit)
    store.execute("UPDATE jobs SET queue = 'long', status = 'running', pid = ?", [os.getpid()])
    assert incoming.chosen_run(store, tiny_study, fit) is None
    assert "will score them" in incoming._unscored(store, tiny_study, fit)
    assert incoming.chosen_run(store, tiny_study, None) == scored
    real = pipeline.score_run

    def scoring(*how):
        found = real(*how)
        studies.add_cases(store, tiny_study, [write(tmp_path / "late.png", picture(52)[0])])
        return found

    monkeypatch.setattr(pipeline, "score_run", scoring)
    load_step("score")(Work(store, fit, {"device": "cpu", "steady": False}))
    late = "SELECT 1 FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.name = 'late.png'"
    assert len(store.query(late, [fit])) == 1
    assert incoming.chosen_run(store, tiny_study, fit) == fit, "it has its scale now"


@pytest.mark.slow
def test_the_page_shows_both_only_while_both_run(store, tiny_study, run, scored, capsys):
    job = add(store, "pretrain", run)
    jobs.claim(store, "long")
    short = add(store, "score", scored)
    now = live.live_status(store)
    assert (now["job"]["id"], now["beside"], now["waiting"]) == (job, None, 1)
    jobs.claim(store, "short")
    now = live.live_status(store)
    assert (now["job"]["id"], now["beside"]["id"], now["waiting"]) == (job, short, 0)
    assert main(["jobs", "--home", str(store.home.path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [f"alongside job {job}" in line for line in printed] == [True, False]
    jobs.advance(store, short)
    assert live.live_status(store)["beside"] is None
    with pytest.raises(ValueError, match=f"job {job} is running"):
        training.delete(store, run)


def test_a_paused_training_keeps_its_place_on_the_page(store, run):
    job = add(store, "pretrain", run)
    jobs.pause(store, job)
    add(store, "embed", run)
    for _ in range(450):  # a day of new cases
        store.execute("INSERT INTO jobs (chain, step, status, created) VALUES ('[]', 'import', 'done', '')")
    assert live.jobs_of_runs(store)[run]["id"] == job
    assert job in [row["id"] for row in jobs.list_jobs(store)]


def test_a_map_waits_for_the_encoder_and_not_for_the_detectors_on_it(store, tiny_study, run):
    fit = runs.create_run(store, tiny_study, "fit", "padim", {}, run)
    chain = [{"step": "pretrain", "run": run}, {"step": "fit", "run": fit}, {"step": "embed", "run": run}]
    job = jobs.submit(store, chain, start=False)
    assert queue(store, add(store, "embed", run)) == "long", "not trained yet"
    assert queue(store, add(store, "embed", run, config={"epochs": [0]})) == "short", "that epoch is saved already"
    assert jobs.claim(store, "long")["id"] == job
    jobs.advance(store, job)
    assert queue(store, add(store, "embed", run)) == "short"


def test_a_cancelled_training_can_be_resumed_whatever_came_after_it(store, run):
    job = add(store, "pretrain", run)
    add(store, "embed", run)
    assert jobs.cancel(store, job) == "cancelled"
    assert live.jobs_of_runs(store)[run]["id"] == job, "the map's job does not hide it"
    assert training.act(store, run, "resume", wake=False) == {"status": "queued"}
    jobs.cancel(store, job)
    again = add(store, "pretrain", run)
    store.execute("UPDATE jobs SET status = 'done' WHERE id = ?", [again])
    newest = add(store, "embed", run)
    assert live.jobs_of_runs(store)[run]["id"] == newest, "trained since: nothing is left to resume"


def test_arrays_cleared_away_by_the_other_queue_are_built_anew(store, tiny_study, monkeypatch):
    real, cleared = cache.masks_of, []

    def masks(store, folder, *rest):
        found = real(store, folder, *rest)
        if not cleared:
            cleared.append(folder)
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        return found

    monkeypatch.setattr(cache, "masks_of", masks)
    assert len(cache.load_arrays(store, tiny_study, 32)) == 36 and cleared
