"""Passwords are checked by few threads with a short queue: hashing takes long on purpose and must not slow the page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

WORKERS = 2
QUEUE = 32

T = TypeVar("T")


class Busy(Exception):
    """Raised when more people sign in at the same moment than the queue holds."""


class HashingPool:
    """A pool of `workers` threads that run what hashes passwords; raises Busy when `queue` calls wait already."""

    def __init__(self, workers: int = WORKERS, queue: int = QUEUE):
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="password")
        self._room = threading.BoundedSemaphore(workers + queue)

    async def run(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise Busy
        try:
            done = self._threads.submit(work)
        except BaseException:
            self._room.release()
            raise
        done.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(done)
