"""Memory that the two queues share: a job that runs out of memory waits for the other one instead of failing."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from core.studio.db.store import Store
from core.studio.jobs import execution, queues
from core.studio.jobs import queue as jobs
from core.studio.jobs.records import TRAINS

TRIES = 5  # largest number of waits of a step of the long queue
LOOK = 0.2  # seconds between two checks


def ran_out(error: BaseException) -> bool:
    """Returns whether an error means that the memory of the device or the machine is exhausted."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "alloc_failed" in text


def release() -> None:
    """Frees device memory that a finished step still occupies."""
    gc.collect()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.empty_cache()


def set_aside(store: Store, job: dict) -> bool:
    """Queues a short job after the running training; returns False if none is running, so that the job fails."""
    if job["queue"] != queues.SHORT or (long := queues.beside(store, queues.SHORT)) is None:
        return False
    deferred = execution.defer(store, job["id"], f"Waits for job {long}: memory does not hold both at once")
    if deferred:
        jobs.ensure_worker(store)  # that job may have ended just now, and its worker gone
    return deferred


def wait_for_room(store: Store, job: dict, should_stop: Callable[[], bool]) -> bool:
    """Makes a training wait for the running short job, to resume from its checkpoint; False if there is none."""
    if job["queue"] != queues.LONG or (short := queues.beside(store, queues.LONG)) is None:
        return False
    if job["step"] in TRAINS:
        store.execute("UPDATE runs SET status = 'queued' WHERE id = ?", [job["run"]])
    done = jobs.get_job(store, job["id"])["progress"]
    execution.progress(store, job["id"], done, f"Waits for job {short}: memory does not hold both at once")
    while not should_stop() and queues.beside(store, queues.LONG) == short:
        jobs.reap(store)  # it may have been killed
        time.sleep(LOOK)
    return True
