"""Pausing jobs so that nothing of a home is at work any more, and saying what goes on when the page is closed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection

from core.studio.db.store import NotFound, Store
from core.studio.jobs import queue as jobs
from core.studio.jobs.processes import is_alive
from core.studio.jobs.records import get_job

SECONDS = 7.0  # after which a worker that is in a long step is ended; its job goes on from its last checkpoint
GIVEN_UP = 2.0  # seconds after that for what cannot be ended: another account's process
LOOK = 0.1


def at_work(store: Store) -> list[dict]:
    """Lists the jobs that run or wait, oldest first."""
    return sorted(jobs.list_jobs(store, "running", "queued"), key=lambda job: job["id"])


def pause(store: Store, only: Collection[int] | None = None, seconds: float = SECONDS) -> list[int]:
    """Pauses all jobs that run or wait (`only`: those of them), each at a checkpoint; returns their ids.

    A worker that has not stopped after so many seconds is ended. `resume` goes on with each of the jobs.
    """
    until, paused = time.monotonic() + seconds, set[int]()
    while left := [job for job in at_work(store) if only is None or job["id"] in only]:
        for job in sorted(left, key=lambda job: job["status"] == "running"):  # or a worker goes on with the next
            with contextlib.suppress(ValueError):  # it has just ended
                if job["wants"] == "run" or job["status"] == "queued":
                    jobs.pause(store, job["id"])
                paused.add(job["id"])
        if time.monotonic() > until:
            for job in left:
                _end_worker(job)
        if time.monotonic() > until + GIVEN_UP:
            break
        time.sleep(LOOK)
    return sorted(job for job in paused if get_job(store, job)["status"] == "paused")


def _end_worker(job: dict) -> None:
    """Kill the process that has a job, with what it has started, unless it is this one."""
    pid = job["pid"]
    if job["status"] != "running" or pid == os.getpid() or not is_alive(pid, job["pid_start"]):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def resume(store: Store, paused: Collection[int]) -> None:
    """Resumes jobs that `pause` has paused and nobody has changed since."""
    for job in paused:
        with contextlib.suppress(NotFound):
            if get_job(store, job)["status"] == "paused":
                jobs.resume(store, job)


def sentence(store: Store, paused: Collection[int] = ()) -> str:
    """Says what was paused and what goes on, and how to change that; "" where there was nothing to do."""
    going = [job for job in at_work(store) if job["id"] not in paused]
    parts = []
    if paused:
        named = ", ".join(str(job) for job in paused)
        again = "`jobs resume N` goes on with it" if len(paused) == 1 else "`jobs resume N` goes on with each"
        parts.append(f"Paused at a checkpoint: {_jobs(len(paused))} {named}; {again}.")
    if going:
        verb = "goes on" if len(going) == 1 else "go on"
        listed = ", ".join(f"{job['id']} ({job['step']}, {_state(job)})" for job in going)
        parts.append(f"{_jobs(len(going)).capitalize()} {listed} {verb} without the page; `jobs stop` pauses all.")
    return " ".join(parts)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"


def _state(job: dict) -> str:
    return f"{job['progress']:.0%}" if job["status"] == "running" else "waits"
