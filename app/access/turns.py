"""Queue for memory-intensive requests: first come, first served, one at a time per reader, within a memory budget.

A waiting request occupies no thread. A route declares how much memory it needs:
`@router.post("/grid", dependencies=[waits_for_memory(400 * MB)])`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Depends, Request

from core.engine.progress import Stopped
from core.studio.db import limits
from core.studio.db.limits import MB
from core.studio.training import dryrun

LOOK = 0.1  # seconds between checks whether the turn has come


class Turns:
    """Queue of requests. Several run at once if their memory fits into `budget` bytes, but only one per reader."""

    budget = 1200 * MB

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[object, tuple[str, int]] = {}  # reader and bytes by turn, in the order of requests
        self._at_work: set[object] = set()

    def ask(self, who: str, size: int) -> object:
        """Queues a request that needs `size` bytes; returns its turn. Raises TooMuch if `who` has too many requests."""
        with self._lock:
            limits.demand("turn", sum(reader == who for reader, _ in self._asked.values()))
            turn = object()
            self._asked[turn] = who, size
            return turn

    def comes(self, turn: object) -> bool:
        """Returns whether the request with this turn may run. It keeps its memory until `leave` is called."""
        with self._lock:
            busy = {self._asked[other][0] for other in self._at_work}
            used = sum(self._asked[other][1] for other in self._at_work)
            for other, (who, size) in self._asked.items():
                if who in busy:
                    continue
                if used and used + size > self.budget:
                    break
                self._at_work.add(other)
                busy.add(who)
                used += size
            return turn in self._at_work

    def leave(self, turn: object) -> None:
        """Ends the turn of a request that has finished or was cancelled."""
        with self._lock:
            self._at_work.discard(turn)
            self._asked.pop(turn, None)


class DryTurns(Turns):
    """Queue of dry runs, each in a separate process. At most two run at once."""

    budget = 2 * dryrun.LEAST


def waits_for_memory(size: int, kind: type[Turns] = Turns) -> Any:
    """Returns a dependency that makes a route, which needs `size` bytes of memory, wait for its turn."""

    async def turn(request: Request) -> AsyncIterator[None]:
        ctx = request.app.state.ctx
        turns = ctx.held(kind)
        my_turn = turns.ask(ctx.user_of(request) or "", size)
        try:
            while not turns.comes(my_turn):
                await asyncio.sleep(LOOK)
                if await request.is_disconnected():
                    raise Stopped
            yield
        finally:
            turns.leave(my_turn)

    return Depends(turn)
