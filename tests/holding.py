"""A training is stopped where a test wants it, so that what is done to it meets it before its end on any machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from core.studio.db import journal, opening
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.conftest import wait

BUSY = 420  # seconds that a busy machine is given


def steps(home, run: str) -> list[int]:
    return [step for step, _ in journal.metrics(opening.open(str(home)), run).get("loss", [])]


def worker_of(home, run: str) -> int:
    return next(job["pid"] for job in jobs.list_jobs(opening.open(str(home)), "running") if job["run"] == run)


def stop_between_writes(home, pid: int) -> None:
    """Stops the process where it holds no lock of the database, so that others can write."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        wait(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", BUSY, "its stop")
        with contextlib.closing(sqlite3.connect(home / "studio.sqlite", timeout=0)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:  # locked, by this process or by another
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.05)


@contextlib.contextmanager
def held(home, run: str, after: int = 1) -> Iterator[int]:
    """The process id of the training's worker, stopped after at least `after` steps, with more to come; it goes on."""
    wait(lambda: len(steps(home, run)) >= after, BUSY, "so many steps")
    pid = worker_of(home, run)
    stop_between_writes(home, pid)
    try:
        assert runs.get_run(opening.open(str(home)), run)["status"] == "running", (
            "it ended before it could be disturbed"
        )
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):  # the test has killed it
            os.kill(pid, signal.SIGCONT)
