"""Two queues: jobs that only read finished runs go on beside a training; each has one worker and keeps its order."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from core.studio.db import migrate as migrations
from core.studio.db.store import Store
from core.studio.incoming import job as incoming
from core.studio.incoming import watch
from core.studio.ingest import cache, studies
from core.studio.jobs import execution, queues, steps, worker
from core.studio.jobs import queue as jobs
from core.studio.jobs.processes import alone
from core.studio.jobs.steps import STEPS, Work
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from core.studio.training import live
from core.studio.training import requests as training
from tests.conftest import picture, scored_padim, wait, write

OUT_OF_MEMORY = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch):
    """No worker is started by itself; the tests start their own."""
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])


@pytest.fixture
def run(store, tiny_study):
    return runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})


def add(store, step, run="", **args):
    return jobs.submit(store, [{"step": step, "run": run, "args": args}], start=False)


def queue(store, job):
    return jobs.get_job(store, job)["queue"]


def status(store, job):
    return jobs.get_job(store, job)["status"]


def replace_step(monkeypatch, name, function):
    STEPS.names()
    monkeypatch.setitem(steps._STEPS, name, function)


class Training:
    """A step "pretrain" that runs, in a worker thread of the long queue, until it may end."""

    def __init__(self, store, monkeypatch, run):
        self.begun, self.may_end, self.store = threading.Event(), threading.Event(), store
        replace_step(monkeypatch, "pretrain", self)
        self.job = add(store, "pretrain", run)
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        own = Store(self.store.home)
        worker.run_queue(own, "long")
        own.close()

    def __call__(self, work: Work):
        self.begun.set()
        assert self.may_end.wait(120)

    def __enter__(self):
        self.thread.start()
        assert self.begun.wait(60)
        return self

    def __exit__(self, *error):
        self.may_end.set()
        self.thread.join(60)


@pytest.fixture
def trains(store, run, monkeypatch):
    with Training(store, monkeypatch, run) as going:
        yield going


@pytest.fixture
def scored(store, tiny_study):
    """A fit that has scored the study."""
    return scored_padim(store, tiny_study)[1]


def test_what_trains_is_long_and_what_reads_finished_runs_is_short(store, run):
    other = runs.create_run(store, runs.get_run(store, run)["study"], "pretrain", "pmsacl", {})
    first = jobs.submit(store, [{"step": v, "run": run} for v in ("pretrain", "fit", "score")], start=False)
    assert queue(store, first) == "long"
    assert [queue(store, add(store, verb, other)) for verb in ("score", "evaluate", "embed", "project")] == [
        "short"
    ] * 4
    assert queue(store, add(store, "import", study="tiny")) == "short"
    assert queue(store, add(store, "demo")) == "long"
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


def test_cases_that_come_while_a_run_is_scored_for_the_first_time(store, tiny_study, scored, tmp_path, monkeypatch):
    """The import leaves them to that scoring, which takes them in; no case is left unscored and none read twice."""
    fit = pipeline.create_fit(store, runs.get_run(store, scored)["parent"], "padim", {"channels": 20})
    pipeline.fit_run(store, fit, "cpu")
    add(store, "score", fit)
    store.execute("UPDATE jobs SET queue = 'long', status = 'running', pid = ?", [os.getpid()])
    assert incoming.chosen_run(store, tiny_study, fit) is None
    assert "is about to score them" in incoming._unscored(store, tiny_study, fit)
    assert incoming.chosen_run(store, tiny_study, None) == scored
    real = pipeline.score_run

    def scoring(*how):
        found = real(*how)
        studies.add_cases(store, tiny_study, [write(tmp_path / "late.png", picture(52)[0])])
        return found

    monkeypatch.setattr(pipeline, "score_run", scoring)
    STEPS["score"](Work(store, fit, {"device": "cpu", "steady": False}))
    late = "SELECT 1 FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.name = 'late.png'"
    assert len(store.query(late, [fit])) == 1
    assert incoming.chosen_run(store, tiny_study, fit) == fit, "it has its scale now"


WORKS = """
import sys, time
from pathlib import Path
from core.studio.db import store
from core.studio.jobs import steps, worker
from core.engine.progress import Stopped
home, queue, finished = sys.argv[1], sys.argv[2], Path(sys.argv[3])
def slow(work):
    for i in range(work.args["steps"]):
        if work.should_stop():
            raise Stopped
        work.report({"step": i, "steps": work.args["steps"], "loss": i})
        time.sleep(0.05)
    with finished.open("a") as out:
        out.write(f"{work.args['n']} ")
steps.STEPS.names()
steps._STEPS.update(pretrain=slow, score=slow)
worker.run_queue(store.open(home), queue)
"""


@pytest.fixture
def start(store, tmp_path):
    """start("long") is a worker process of that queue, whose steps take `steps` twentieths of a second."""
    started = []

    def begin(name):
        line = [sys.executable, "-c", WORKS, str(store.home.path), name, str(tmp_path / f"{name}.txt")]
        started.append(subprocess.Popen(line, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def moves(store, job):
    """Waits until a job has got further than it was."""
    before = jobs.get_job(store, job)["progress"]
    wait(lambda: jobs.get_job(store, job)["progress"] > before)


@pytest.mark.parametrize(("killed", "lives"), [("short", "long"), ("long", "short")])
def test_one_queues_worker_is_killed_and_the_other_goes_on(store, run, start, killed, lives):
    other = runs.create_run(store, runs.get_run(store, run)["study"], "pretrain", "pmsacl", {})
    made = {
        "long": add(store, "pretrain", run, steps=6000, n=1),
        "short": add(store, "score", other, steps=6000, n=1),
    }
    workers = {name: start(name) for name in queues.QUEUES}
    for job in made.values():
        wait(lambda job=job: jobs.get_job(store, job)["progress"] > 0)
    assert len({jobs.get_job(store, job)["pid"] for job in made.values()}) == 2
    os.kill(workers[killed].pid, signal.SIGKILL)
    wait(lambda: jobs.reap(store) == [made[killed]])
    assert (status(store, made[killed]), status(store, made[lives])) == ("interrupted", "running")
    moves(store, made[lives])
    jobs.resume(store, made[killed], start=False)
    start(killed)
    wait(lambda: status(store, made[killed]) == "running")
    moves(store, made[killed])
    moves(store, made[lives])
    assert workers[lives].poll() is None
    jobs.pause(store, made[killed])
    wait(lambda: status(store, made[killed]) == "paused")
    jobs.cancel(store, made[lives])
    wait(lambda: status(store, made[lives]) == "cancelled")
    assert workers[lives].wait(60) == 0


def test_each_queue_has_one_worker_and_its_order_and_no_step_is_lost_or_done_twice(store, run, start, tmp_path):
    study = runs.get_run(store, run)["study"]
    for n in range(5):
        add(store, "pretrain", runs.create_run(store, study, "pretrain", "pmsacl", {}), steps=3, n=n)
        add(store, "score", run, steps=3, n=n)
    workers = [start(name) for name in ("long", "short", "long", "short")]
    while store.one("SELECT 1 FROM jobs WHERE status != 'done'"):
        assert any(w.poll() is None for w in workers)
        time.sleep(0.05)
    assert [w.wait(60) for w in workers] == [0] * 4
    for name in queues.QUEUES:
        assert (tmp_path / f"{name}.txt").read_text().split() == ["0", "1", "2", "3", "4"], name


def test_a_short_job_without_room_waits_for_the_training(store, tiny_study, trains, monkeypatch):
    tried = []

    def scores(work):
        tried.append(trains.may_end.is_set())
        if not trains.may_end.is_set():
            raise OUT_OF_MEMORY

    replace_step(monkeypatch, "score", scores)
    other = runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})
    job = add(store, "score", other)
    worker.run_queue(store, "short")
    row = jobs.get_job(store, job)
    assert (row["status"], row["queue"], row["error"]) == ("queued", "long", None)
    assert row["message"] == f"Waits for job {trains.job}: memory does not hold both at once"
    trains.may_end.set()
    trains.thread.join(60)
    assert status(store, job) == "done" and tried == [False, True]


def test_a_training_without_room_waits_for_the_short_job_and_goes_on(store, tiny_study, run, monkeypatch):
    holds, began = threading.Event(), threading.Event()
    other = runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})

    def pretrain(work):
        if not holds.is_set():
            raise OUT_OF_MEMORY

    def score(work):
        began.set()
        assert holds.wait(60)

    replace_step(monkeypatch, "pretrain", pretrain)
    replace_step(monkeypatch, "score", score)
    short, long = add(store, "score", other), add(store, "pretrain", run)
    threads = [threading.Thread(target=lambda n=n: worker.run_queue(Store(store.home), n)) for n in queues.QUEUES]
    threads[0].start()
    assert began.wait(60)
    threads[1].start()
    wait(lambda: "Waits for job" in jobs.get_job(store, long)["message"])
    assert status(store, long) == "running" and runs.get_run(store, run)["status"] == "queued"
    holds.set()
    for thread in threads:
        thread.join(60)
    assert (status(store, short), status(store, long)) == ("done", "done")


def test_out_of_memory_with_nothing_beside_is_said(store, run, monkeypatch):
    def full(work):
        raise OUT_OF_MEMORY

    for step in ("pretrain", "score"):
        replace_step(monkeypatch, step, full)
        job = add(store, step, run)
        worker.run_queue(store)
        row = jobs.get_job(store, job)
        assert row["status"] == "failed" and "smaller batch" in row["error"]


def test_a_database_of_before_keeps_its_jobs(home, monkeypatch):
    with monkeypatch.context() as patch:
        before = [name for name in migrations.names() if name < "0310_job_lanes"]
        patch.setattr(migrations, "names", lambda: before)
        old = Store(home)
        assert "lane" not in old.db["jobs"].columns_dict
        for n, (step, state) in enumerate(
            [("pretrain", "running"), ("intake", "queued"), ("score", "queued"), ("intake", "done")], start=1
        ):
            chain = json.dumps([{"verb": step, "run": "", "args": {}}])
            old.db["jobs"].insert(
                {"id": n, "chain": chain, "verb": step, "status": state, "created": "2026-01-01", "pid": os.getpid()}
            )
        old.db.conn.commit()
        old.close()
    store = Store(home)
    kept = {row["id"]: (row["queue"], row["status"]) for row in store.query("SELECT * FROM jobs")}
    assert kept == {1: ("long", "running"), 2: ("short", "queued"), 3: ("long", "queued"), 4: ("short", "done")}
    assert jobs.get_job(store, 2)["chain"] == [{"step": "import", "run": "", "args": {}}]
    assert execution.claim(store, "long") is None and execution.claim(store, "short")["id"] == 2
    with pytest.raises(Exception, match="UNIQUE"):
        store.execute("UPDATE jobs SET status = 'running' WHERE id = 3")


def test_the_page_shows_both_only_while_both_run(store, tiny_study, run, scored, capsys):
    job = add(store, "pretrain", run)
    execution.claim(store, "long")
    short = add(store, "score", scored)
    now = live.now(store)
    assert (now["job"]["id"], now["beside"], now["waiting"]) == (job, None, 1)
    execution.claim(store, "short")
    now = live.now(store)
    assert (now["job"]["id"], now["beside"]["id"], now["waiting"]) == (job, short, 0)
    from app.commands import main

    assert main(["jobs", "--home", str(store.home.path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [f"beside job {job}" in line for line in printed] == [True, False]
    execution.advance(store, short)
    assert live.now(store)["beside"] is None
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


def test_arrays_cleared_away_by_the_other_queue_are_built_anew(store, tiny_study, monkeypatch):
    real, cleared = cache._masks, []

    def masks(store, folder, *rest):
        found = real(store, folder, *rest)
        if not cleared:
            cleared.append(folder)
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        return found

    monkeypatch.setattr(cache, "_masks", masks)
    assert len(cache.load_arrays(store, tiny_study, 32)) == 36 and cleared


def test_only_one_at_a_time_makes_what_both_would_write(tmp_path):
    seen, inside = [], threading.Event()

    def second():
        inside.wait(60)
        with alone(tmp_path / "lock"):
            seen.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with alone(tmp_path / "lock"):
        inside.set()
        time.sleep(0.3)
        seen.append("first")
    thread.join(60)
    assert seen == ["first", "second"]


def test_a_training_gives_way_and_a_short_job_does_not(store):
    code = (
        "import os, sys; from core.studio.jobs import worker; "
        "worker.run_queue = lambda *_: print(os.nice(0)); worker.main()"
    )
    niceness = []
    for name in ("long", "short"):
        line = [sys.executable, "-c", code, "--home", str(store.home.path), "--queue", name]
        niceness.append(
            int(subprocess.run(line, capture_output=True, text=True, timeout=60, start_new_session=True).stdout)
        )
    assert niceness[0] > niceness[1] == os.nice(0)
