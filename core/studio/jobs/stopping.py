"""Pauses the jobs of a home, and describes the jobs that continue when the page is closed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection

from core.studio.db.store import NotFound, Store
from core.studio.jobs import queue as jobs
from core.studio.jobs.processes import is_alive
from core.studio.jobs.queue import get_job

SECONDS = 7.0  # seconds until a worker is killed; the job can resume from the last checkpoint
GIVEN_UP = 2.0  # further seconds to wait for a worker that cannot be killed, such as another account's
LOOK = 0.1  # seconds between two checks


def at_work(store: Store) -> list[dict]:
    """Returns the running and queued jobs, oldest first."""
    return sorted(jobs.list_jobs(store, "running", "queued"), key=lambda job: job["id"])


def pause(store: Store, only: Collection[int] | None = None, seconds: float = SECONDS) -> list[int]:
    """Pauses all running and queued jobs, or those in `only`, at a checkpoint; returns the ids of the paused jobs.

    Workers that do not stop within `seconds` are killed. `resume` continues the jobs.
    """
    until, paused = time.monotonic() + seconds, set[int]()
    while active := [job for job in at_work(store) if only is None or job["id"] in only]:
        for job in sorted(
            active, key=lambda job: job["status"] == "running"
        ):  # queued ones first, or a worker would start them
            with contextlib.suppress(ValueError):  # the job has just ended
                if job["wants"] == "run" or job["status"] == "queued":
                    jobs.pause(store, job["id"])
                paused.add(job["id"])
        if time.monotonic() > until:
            for job in active:
                _end_worker(job)
        if time.monotonic() > until + GIVEN_UP:
            break
        time.sleep(LOOK)
    return sorted(job for job in paused if get_job(store, job)["status"] == "paused")


def _end_worker(job: dict) -> None:
    """Kills a job's worker process and its children, unless the worker is this process."""
    pid = job["pid"]
    if job["status"] != "running" or pid == os.getpid() or not is_alive(pid, job["pid_start"]):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


def resume(store: Store, paused: Collection[int]) -> None:
    """Resumes the given jobs, except those that are no longer paused."""
    for job in paused:
        with contextlib.suppress(NotFound):
            if get_job(store, job)["status"] == "paused":
                jobs.resume(store, job)


def sentence(store: Store, paused: Collection[int] = ()) -> str:
    """Returns a message on paused and continuing jobs and the commands to resume or pause them, or "" without jobs."""
    going = [job for job in at_work(store) if job["id"] not in paused]
    sentences = []
    if paused:
        named = ", ".join(str(job) for job in paused)
        again = "`jobs resume N` continues it" if len(paused) == 1 else "`jobs resume N` continues job N"
        sentences.append(f"Paused at a checkpoint: {_jobs(len(paused))} {named}; {again}.")
    if going:
        verb = "continues" if len(going) == 1 else "continue"
        listed = ", ".join(f"{job['id']} ({job['step']}, {_state(job)})" for job in going)
        sentences.append(f"{_jobs(len(going)).capitalize()} {listed} {verb} without the page; `jobs stop` pauses all.")
    return " ".join(sentences)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"


def _state(job: dict) -> str:
    return f"{job['progress']:.0%}" if job["status"] == "running" else "waits"
