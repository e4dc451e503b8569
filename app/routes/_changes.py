"""Server-sent events: one look at the database for all streams, and what each sends when something has changed."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

from starlette.concurrency import run_in_threadpool

from core.studio.db import limits
from core.studio.db.store import Store

EVERY = 0.2  # seconds between two looks
PAUSE = 1.0  # seconds between two statuses of a stream, at the least
BEAT = 10.0  # seconds between two beats; app/static/events.js waits for them
LIFE = 3600.0  # seconds after which a stream ends, and its browser opens another


class Changes:
    """A watch on the home's database: wakes its listeners when another connection, of any process, has written to it.

    One thread asks SQLite for its data_version, which holds no transaction; it ends when nobody listens.
    """

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()
        self._wakers: set[Callable[[], None]] = set()
        self._streams: Counter[str] = Counter()  # of each reader
        self._looks = False
        self.closed = False

    @contextlib.contextmanager
    def counted(self, reader: str) -> Iterator[None]:
        """Counts a stream of the reader's while it is open. Raises TooMuch if the reader has too many."""
        with self._lock:
            limits.demand("stream", self._streams[reader])
            self._streams[reader] += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams[reader] -= 1

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """Yields an event of the running loop that is set at each change, and at first."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        event.set()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(event.set)

        with self._lock:
            self._wakers.add(wake)
            if not self._looks:
                self._looks = True
                threading.Thread(target=self._look, name="changes", daemon=True).start()
        try:
            yield event
        finally:
            with self._lock:
                self._wakers.discard(wake)

    def close(self) -> None:
        """Ends all streams, because the server stops."""
        self.closed = True
        with self._lock:
            for wake in self._wakers:
                wake()

    def _look(self) -> None:
        rest, version = threading.Event(), None
        try:
            while True:
                with self._lock:
                    if not self._wakers:
                        self._looks = False
                        return
                    wakers = list(self._wakers)
                with contextlib.suppress(sqlite3.OperationalError):  # busy: at the next look
                    now = self._store.db.conn.execute("PRAGMA data_version").fetchone()[0]
                    if now != version:
                        version = now
                        for wake in wakers:
                            wake()
                rest.wait(EVERY)
        finally:
            self._store.close()  # this thread's connection


async def stream(changes: Changes, say: Callable[[], str | None]) -> AsyncIterator[str]:
    """Yields server-sent events: `status` when the text of `say` changes, and a regular `beat`.

    Whoever must not learn of a change is given the same text before and after it, and nothing else depends on changes.
    `say` runs in a thread and reads what it needs by itself; None ends the stream, for whoever asked has signed out.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    due, beat, end = begun + PAUSE, begun + BEAT, begun + LIFE
    last = await run_in_threadpool(say)
    if last is None:
        return
    yield f"event: status\ndata: {last}\n\n"
    if clock() >= end:
        return
    with changes.listening() as changed:
        while not changes.closed and clock() < end:
            if clock() >= beat:
                yield "event: beat\ndata: 1\n\n"
                beat += BEAT
                changed.set()  # a session that has run out, or a worker that died, writes nothing
            if not changed.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), max(beat - clock(), 0))
            elif clock() < due:
                await asyncio.sleep(max(min(due, beat) - clock(), 0))
            else:
                changed.clear()
                text = await run_in_threadpool(say)
                if text is None:
                    return
                if text != last:
                    yield f"event: status\ndata: {text}\n\n"
                    last = text
                due = clock() + PAUSE
