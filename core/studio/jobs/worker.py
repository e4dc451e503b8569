"""The process that executes the jobs of a queue: `python -m core.studio.jobs.worker --home DIR --queue long`.

It claims one queued job after another and ends when the queue is empty. It runs in its own session, so it continues
when the page, a terminal or the app is closed. If it is killed, its job becomes 'interrupted' and can be resumed.
Commands that torchrun starts in several processes execute their job without a worker (`execute_here`). Both queues
share the machine's memory, so a job that runs out of memory waits for the job of the other queue and is then retried.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import json
import math
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from core.studio.db import journal, logged, opening
from core.studio.db.home import Home
from core.studio.db.store import Store, is_full
from core.studio.jobs import queue as jobs
from core.studio.jobs import steps, times
from core.studio.jobs.queue import LONG, QUEUES, TRAINS, get_job, others_wait
from core.studio.jobs.steps import STEPS, Work

HEARTBEAT = 2.0  # seconds between two heartbeats of a job
FLUSH = 1.0  # seconds between two writes of metrics
LOOK = 0.2  # seconds between two checks for requests to pause or cancel
PATIENCE = 600.0  # seconds for which a worker tries to record an error while the disk is full
NICE = 3  # niceness added to the worker of the long queue, because people wait for the page and the short queue
GAVE_WAY = "Continues when other jobs are done"
_terminated = threading.Event()
_alone = threading.Event()  # set if this process is a worker and nothing else


def stop(*_: object) -> None:
    """Asks the job that this process executes to stop at a checkpoint."""
    _terminated.set()


class HomeGone(SystemExit):
    """Raised if the home was deleted; ends this process, which must not create the home again."""


def identity(file: Path) -> tuple[int, int] | None:
    """Returns the device and inode of a file, or None if it is missing. They change if the file is replaced."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class StopRequest:
    """The `should_stop` of a step. Returns True if the job was asked to stop or must give way, or after SIGTERM.

    Raises HomeGone if the home was deleted.
    """

    def __init__(self, store: Store, job: int):
        self.store, self.job, self.wants, self.looked = store, job, "run", 0.0
        self.gives_way = False
        self.database = identity(store.home.db)

    def __call__(self) -> bool:
        look = time.monotonic() - self.looked >= LOOK
        if (look or _terminated.is_set()) and identity(self.store.home.db) != self.database:
            raise HomeGone(f"the home {self.store.home.path} was deleted: this worker ends")
        if _terminated.is_set():
            return True
        if look:
            self.wants, self.looked = jobs.wants(self.store, self.job), time.monotonic()
            self.gives_way = self.wants == "run" and others_wait(self.store, self.job)
        return self.wants != "run" or self.gives_way

    @property
    def status(self) -> str:
        self.looked = 0.0
        self()
        if self.gives_way and not _terminated.is_set():
            return "queued"
        return {"pause": "paused", "cancel": "cancelled"}.get(self.wants, "interrupted")


@contextlib.contextmanager
def beating(store: Store, job: int):
    """Records a job's heartbeat in a separate thread while the block runs."""
    stop = threading.Event()

    database = identity(store.home.db)

    def beat():
        while not stop.wait(HEARTBEAT):
            if identity(store.home.db) != database and _alone.is_set():  # a step may rarely call should_stop
                if os.getpgrp() == os.getpid():
                    os.killpg(os.getpid(), signal.SIGKILL)  # includes child processes
                os._exit(1)
            with contextlib.suppress(Exception):  # a busy database must not end the job
                jobs.heartbeat(store, job)
        store.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def execute(store: Store, job: dict) -> str:
    """Executes a claimed job until it ends or is stopped; returns the final status."""
    from core.engine.progress import Stopped

    tried = 0
    with beating(store, job["id"]):
        wish = StopRequest(store, job["id"])
        current: dict | None = job
        while current is not None:
            job = current
            reporter = Reporter(store, job)
            try:
                if wish():
                    raise Stopped
                reporter.flush()
                noted = times.begin(store, job)
                steps.load_step(job["step"])(Work(store, job["run"] or "", job["args"], reporter, wish, job["id"]))
                reporter.flush()
                times.done(store, noted)
                current, tried = jobs.advance(store, job["id"]), 0
                continue
            except Stopped:
                reporter.flush()
                status = wish.status
                if status == "queued":
                    with store.write():
                        jobs.end(store, job["id"], "paused")
                        jobs.resume(store, job["id"], start=False)
                        store.execute("UPDATE jobs SET message = ? WHERE id = ?", [GAVE_WAY, job["id"]])
                    return status
                jobs.end(
                    store, job["id"], status, {"paused": "Paused", "cancelled": "Cancelled"}.get(status, "Stopped")
                )
                return status
            except Exception as error:
                with contextlib.suppress(sqlite3.OperationalError):  # the database may be on the full disk
                    reporter.flush()
                print(logged.trace_of(error), file=sys.stderr, flush=True)
                sentence, full = store.home.left_out_of(explain(error)), ran_out(error)
            if full:  # outside of the handler, because the error keeps the step's memory alive
                release()
                if set_aside(store, job):
                    return "queued"
                tried += 1
                if tried <= TRIES and wait_for_room(store, job, wish):
                    continue
            _end_failed(store, job["id"], sentence)
            return "failed"
    return "done"


def _end_failed(store: Store, job: int, sentence: str) -> None:
    """Records why a job failed; if the disk is full, tries again for PATIENCE seconds."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            jobs.end(store, job, "failed", sentence, sentence)
            return
        except sqlite3.OperationalError as error:
            if not is_full(error) or time.monotonic() > until or _terminated.wait(1.0):
                raise


def explain(error: Exception) -> str:
    """Returns an error message for users. The text of a ValueError is returned unchanged."""
    text = str(error).strip()
    if ran_out(error):
        return "Out of memory: choose a smaller batch or image size, or another device"
    if is_full(error):
        return "The disk is full: free some space, then Resume continues from the last checkpoint"
    if isinstance(error, ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def run_queue(store: Store, *queues: str) -> int:
    """Executes the jobs of the given queues (default: both), one queue after the other; returns the number of jobs."""
    return sum(_run_one_queue(store, queue) for queue in queues or QUEUES)


def _run_one_queue(store: Store, queue: str) -> int:
    """Executes the jobs of a queue, in which at most one worker is active and one waits."""
    done, name = 0, "worker" if queue == LONG else f"worker-{queue}"
    with open(store.home.path / f"{name}.lock", "w") as lock, open(store.home.path / f"{name}.next", "w") as second:
        while _waits(store, queue) and not _terminated.is_set():
            if not _lock(lock):
                # The active worker may take the job or be about to end, so one process waits and checks again.
                if not _lock(second):
                    return done
                time.sleep(0.5)
                continue
            jobs.reap(store)
            while not _terminated.is_set() and (job := jobs.claim(store, queue)):
                execute(store, job)
                done += 1
            fcntl.flock(lock, fcntl.LOCK_UN)  # then checks again, because a job may have been queued meanwhile
    return done


def _waits(store: Store, queue: str) -> bool:
    return store.one("SELECT 1 FROM jobs WHERE status = 'queued' AND queue = ?", [queue]) is not None


def _lock(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def give_way() -> None:
    """Lowers the priority of this process, because the page and the short queue come first."""
    os.nice(NICE)
    if os.getsid(0) == os.getpid():  # Linux may schedule sessions, not processes: man 7 sched, autogroup
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(NICE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", required=True)
    parser.add_argument("--queue", choices=QUEUES, help="queue to execute (default: both, one after the other)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    _alone.set()
    if args.queue == LONG:
        give_way()
    run_queue(opening.open(Home.at(args.home)), *([args.queue] if args.queue else []))
    return 0


class Reporter:
    """Receives a step's reports; stores the metrics, the job's progress and the message for users."""

    def __init__(self, store: Store, job: dict):
        self.store, self.job = store, job
        self.rows: list[tuple[int, str, float]] = []
        self.doing = STEPS[job["step"]].message
        self.fraction, self.message, self.written = 0.0, f"{self.doing} …", 0.0
        self.shown: str | None = None
        self.thinned = 0  # the training step at which metrics were last thinned

    def __call__(self, values: dict) -> None:
        step, count = int(values.get("step", 0)), max(int(values.get("steps", 0) or 0), 1)
        self.fraction = min(step / count, 1.0)
        self.rows += [(step, name, value) for name, value in flatten(values) if name not in ("step", "steps")]
        message = values.get("message")
        if message and message != self.shown and self.job["run"]:
            journal.log(self.store, self.job["run"], message)
            self.shown = message
        self.message = message or f"{self.doing}: {step} of {count}"
        if time.monotonic() - self.written >= FLUSH:
            self.flush()

    def flush(self) -> None:
        if self.rows and self.job["run"] and self.job["step"] in TRAINS:
            journal.write_metrics(self.store, self.job["run"], self.rows)
            if (last := self.rows[-1][0]) - self.thinned >= journal.RECENT:
                journal.thin_metrics(self.store, self.job["run"], last)
                self.thinned = last
        self.rows = []
        share = (self.job["position"] + self.fraction) / len(self.job["chain"])
        jobs.progress(self.store, self.job["id"], share, self.message)
        self.written = time.monotonic()


def flatten(values: dict) -> list[tuple[str, float]]:
    """Returns a report's numbers as (name, number) pairs. List items are named name_0, ..., nested ones name_0_0."""
    pairs = []
    for name, value in values.items():
        several = value if isinstance(value, (list, tuple)) and len(value) <= 64 else None
        if several:
            pairs += flatten({f"{name}_{i}": v for i, v in enumerate(several)})
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            pairs.append((name, float(value) if math.isfinite(value) else math.nan))
    return pairs


TRIES = 5  # largest number of times that a step in the long queue waits for memory


def ran_out(error: BaseException) -> bool:
    """Returns whether an error means that the device or the machine has run out of memory."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "alloc_failed" in text


def release() -> None:
    """Frees device memory that a finished step still occupies."""
    gc.collect()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.empty_cache()


def set_aside(store: Store, job: dict) -> bool:
    """If a long job is running, moves a short job to the long queue to wait for it. Returns whether it was moved."""
    if job["queue"] != jobs.SHORT or (long := jobs.running_in_other_queue(store, jobs.SHORT)) is None:
        return False
    deferred = jobs.defer(store, job["id"], f"Waits for job {long}: not enough memory for both")
    if deferred:
        jobs.ensure_worker(store)  # the long job and its worker may have ended just now
    return deferred


def wait_for_room(store: Store, job: dict, should_stop: Callable[[], bool]) -> bool:
    """Waits until the running short job ends, so that a long job can be retried; returns False if none is running."""
    if job["queue"] != jobs.LONG or (short := jobs.running_in_other_queue(store, jobs.LONG)) is None:
        return False
    if job["step"] in TRAINS:
        store.execute("UPDATE runs SET status = 'queued' WHERE id = ?", [job["run"]])
    done = jobs.get_job(store, job["id"])["progress"]
    jobs.progress(store, job["id"], done, f"Waits for job {short}: not enough memory for both")
    while not should_stop() and jobs.running_in_other_queue(store, jobs.LONG) == short:
        jobs.reap(store)  # the worker of the short job may have been killed
        time.sleep(LOOK)
    return True


RESUMABLE = ("interrupted", "failed", "paused", "cancelled")  # statuses of jobs that stopped early


def unfinished(store: Store, run: str) -> int | None:
    """Returns the id of a run's newest job if that job can be resumed, or None otherwise."""
    jobs.reap(store)
    for row in store.query("SELECT id, status, chain FROM jobs ORDER BY id DESC"):
        if any(step["run"] == run for step in json.loads(row["chain"])):
            return row["id"] if row["status"] in RESUMABLE else None
    return None


def execute_here(store: Store, job: int) -> dict:
    """Executes a queued job in this process; returns the job's row. SIGTERM stops the job at a checkpoint.

    Raises ValueError, and cancels the job, if another job of the same queue is running.
    """
    claimed = jobs.claim(store, job=job)
    if claimed is None:
        jobs.cancel(store, job)
        raise ValueError("another training run is active in this home: wait for it, or pause it")
    before = signal.signal(signal.SIGTERM, stop)
    try:
        execute(store, claimed)
    finally:
        signal.signal(signal.SIGTERM, before)
    return get_job(store, job)


if __name__ == "__main__":
    sys.exit(main())
