"""Each queue has one worker process, which may be killed without harm to the other."""

import os
import signal
import subprocess
import sys

import pytest

from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.conftest import wait
from tests.studio.jobs.conftest import WORKER, add, status

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture
def start(store, tmp_path):
    """start("long") is a worker process of that queue, whose steps take `steps` twentieths of a second."""
    started = []

    def begin(name):
        line = [sys.executable, "-c", WORKER, str(store.home.path), name, str(tmp_path / f"{name}.txt")]
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


@pytest.mark.long
@pytest.mark.parametrize(("killed", "lives"), [("short", "long"), ("long", "short")])
def test_one_queues_worker_is_killed_and_the_other_goes_on(store, run, start, killed, lives):
    other = runs.create_run(store, runs.get_run(store, run)["study"], "pretrain", "pmsacl", {})
    made = {
        "long": add(store, "pretrain", run, steps=6000, n=1),
        "short": add(store, "score", other, steps=6000, n=1),
    }
    workers = {name: start(name) for name in jobs.QUEUES}
    for job in made.values():
        wait(lambda job=job: jobs.get_job(store, job)["progress"] > 0)
    assert len({jobs.get_job(store, job)["pid"] for job in made.values()}) == 2
    assert jobs.reap(store) == []
    os.kill(workers[killed].pid, signal.SIGKILL)  # not waited for: a zombie keeps its process id
    wait(lambda: jobs.reap(store) == [made[killed]])
    assert runs.get_run(store, run)["status"] == ("interrupted" if killed == "long" else "queued")
    assert (status(store, made[killed]), status(store, made[lives])) == ("interrupted", "running")
    moves(store, made[lives])
    jobs.resume(store, made[killed], start=False)
    start(killed)
    wait(lambda: status(store, made[killed]) == "running")
    moves(store, made[killed])
    moves(store, made[lives])
    assert workers[lives].poll() is None
    assert jobs.pause(store, made[killed]) == "running"
    wait(lambda: status(store, made[killed]) == "paused")
    jobs.cancel(store, made[lives])
    wait(lambda: status(store, made[lives]) == "cancelled")
    assert workers[lives].wait(60) == 0 and runs.get_run(store, run)["status"] == "stopped"


@pytest.mark.slow
def test_each_queue_has_one_worker_and_its_order_and_no_step_is_lost_or_done_twice(store, run, start, tmp_path):
    study = runs.get_run(store, run)["study"]
    for n in range(5):
        add(store, "pretrain", runs.create_run(store, study, "pretrain", "pmsacl", {}), steps=3, n=n)
        add(store, "score", run, steps=3, n=n)
    workers = [start(name) for name in ("long", "short", "long", "short")]
    assert [w.wait(240) for w in workers] == [0] * 4
    assert not store.query("SELECT 1 FROM jobs WHERE status != 'done'")
    for name in jobs.QUEUES:
        assert (tmp_path / f"{name}.txt").read_text().split() == ["0", "1", "2", "3", "4"], name
