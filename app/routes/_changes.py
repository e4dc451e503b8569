"""Server-sent events: a thread that watches the database for all streams, and a generator of a stream's events."""

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

EVERY = 0.2  # seconds between two checks of the database
PAUSE = 1.0  # minimum seconds between two `status` events of a stream
BEAT = 10.0  # seconds between two heartbeats; app/static/events.js expects them
LIFE = 3600.0  # seconds after which a stream ends and its browser opens another


class Changes:
    """Watches the home's database, and wakes all listeners when another connection, in any process, has written to it.

    A thread polls SQLite's data_version, which needs no transaction. The thread ends when nobody listens.
    """

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()
        self._wakers: set[Callable[[], None]] = set()
        self._streams: Counter[str] = Counter()  # open streams by reader
        self._looks = False
        self.closed = False

    @contextlib.contextmanager
    def counted(self, reader: str) -> Iterator[None]:
        """Counts a reader's stream while it is open. Raises TooMuch if the reader has too many streams."""
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
        """Yields an asyncio event that is set initially and after each change of the database."""
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
        """Ends all streams when the server shuts down."""
        self.closed = True
        with self._lock:
            for wake in self._wakers:
                wake()

    def _look(self) -> None:
        timer, version = threading.Event(), None
        try:
            while True:
                with self._lock:
                    if not self._wakers:
                        self._looks = False
                        return
                    wakers = list(self._wakers)
                with contextlib.suppress(sqlite3.OperationalError):  # the database is busy: the next check tries again
                    now = self._store.db.conn.execute("PRAGMA data_version").fetchone()[0]
                    if now != version:
                        version = now
                        for wake in wakers:
                            wake()
                timer.wait(EVERY)
        finally:
            self._store.close()  # this thread's connection


async def stream(changes: Changes, say: Callable[[], str | None]) -> AsyncIterator[str]:
    """Yields server-sent events: `status` when the text returned by `say` changes, and `beat` at regular intervals.

    Only changes of this text affect the stream, so that it reveals nothing that the text does not contain. `say` runs
    in a thread, because it reads the database. After a sign-out it returns None, which ends the stream.
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
                changed.set()  # an expired session or a dead worker writes nothing to the database
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
