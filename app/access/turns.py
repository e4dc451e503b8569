"""Turns at what is heavy: within a budget of memory, one at a time for each reader, in the order of asking.

Who waits holds no thread. A route says what it takes: `@router.post("/grid", dependencies=[heavy(400 * MB)])`.
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

LOOK = 0.1  # seconds between looks whether the turn has come


class Turns:
    """The turns of one budget of memory."""

    budget = 1200 * MB

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[object, tuple[str, int]] = {}  # turn -> reader and bytes, in the order of asking
        self._at_work: set[object] = set()

    def ask(self, who: str, size: int) -> object:
        """Takes a turn, to be handed to `comes` and `leave`. Raises TooMuch if the reader has too many waiting."""
        with self._lock:
            limits.demand("turn", sum(reader == who for reader, _ in self._asked.values()))
            turn = object()
            self._asked[turn] = who, size
            return turn

    def comes(self, turn: object) -> bool:
        """Says whether the turn has come; it then lasts until `leave`."""
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
        """Ends a turn that is over, or that is not wanted any more."""
        with self._lock:
            self._at_work.discard(turn)
            self._asked.pop(turn, None)


class DryTurns(Turns):
    """Those of dry runs, each a process of its own: two at once."""

    budget = 2 * dryrun.LEAST


def heavy(size: int, kind: type[Turns] = Turns) -> Any:
    """Returns the dependency of a route that takes so many bytes of memory: it begins when its turn has come."""

    async def turn(request: Request) -> AsyncIterator[None]:
        ctx = request.app.state.ctx
        turns = ctx.held(kind)
        own = turns.ask(ctx.user_of(request) or "", size)
        try:
            while not turns.comes(own):
                await asyncio.sleep(LOOK)
                if await request.is_disconnected():
                    raise Stopped
            yield
        finally:
            turns.leave(own)

    return Depends(turn)
