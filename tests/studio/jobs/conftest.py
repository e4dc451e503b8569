"""A run to make jobs for, a training that goes on until it may end, and worker processes."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from core.studio.db import opening
from core.studio.jobs import queue as jobs
from core.studio.jobs import steps, worker
from core.studio.jobs.steps import Work
from core.studio.runs import records as runs
from tests.conftest import scored_padim, wait

# A worker process whose steps take `steps` twentieths of a second.
# Arguments: the home, the queue (default: both), a file that gets the argument `n` of each finished job.
WORKER = """
import signal, sys, time
from core.studio.db import opening
from core.studio.jobs import steps, worker
from core.engine.progress import Stopped
home, queues, finished = sys.argv[1], sys.argv[2:3], sys.argv[3:]
def slow(work):
    count = work.args.get("steps", 600)
    for i in range(count):
        if work.should_stop():
            raise Stopped
        work.report({"step": i, "steps": count, "loss": i})
        time.sleep(0.05)
    for file in finished:
        with open(file, "a") as out:
            out.write(f"{work.args['n']} ")
steps.load_step = lambda name: slow
signal.signal(signal.SIGTERM, worker.stop)
worker.run_queue(opening.open(home), *queues)
"""


@pytest.fixture
def run(store, tiny_study):
    return runs.create_run(store, tiny_study, "pretrain", "pmsacl", {})


def add(store, step, run="", **args):
    return jobs.submit(store, [{"step": step, "run": run, "args": args}], start=False)


def status(store, job):
    return jobs.get_job(store, job)["status"]


def replace_step(monkeypatch, name, function):
    real = steps.load_step
    monkeypatch.setattr(steps, "load_step", lambda step: function if step == name else real(step))


class Training:
    """A step "pretrain" that runs, in a worker thread of the long queue, until it may end."""

    def __init__(self, store, monkeypatch, run):
        self.begun, self.may_end, self.store = threading.Event(), threading.Event(), store
        replace_step(monkeypatch, "pretrain", self)
        self.job = add(store, "pretrain", run)
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        own = opening.open(self.store.home)
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


def chain(run, *steps):
    return [{"step": step, "run": run} for step in steps]


@pytest.fixture
def slow(store, run):
    """A job of half a minute, in a worker process of its own."""
    started = []

    def start():
        started.append(subprocess.Popen([sys.executable, "-c", WORKER, str(store.home.path)], start_new_session=True))
        wait(lambda: jobs.get_job(store, job)["status"] == "running" and jobs.get_job(store, job)["progress"] > 0)
        return started[-1]

    job = jobs.submit(store, chain(run, "pretrain", "score"), start=False)
    yield job, start
    for process in started:
        process.kill()
        process.wait()
