"""Passwords are checked by a few threads with a short queue: hashing is slow on purpose and must not slow the page."""

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
    """Raised when more people sign in at once than the queue holds."""


class HashingPool:
    """Runs password hashing in `workers` threads; raises Busy if `queue` calls are already waiting."""

    def __init__(self, workers: int = WORKERS, queue: int = QUEUE):
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="password")
        self._room = threading.BoundedSemaphore(workers + queue)

    async def run(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise Busy
        try:
            future = self._threads.submit(work)
        except BaseException:
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(future)
