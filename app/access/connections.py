"""Connections to the server: none waits long for a request, and none of one address keeps others out.

A connection that sends no whole head within HEAD seconds, or nothing of a body for BODY seconds, is closed. Beyond
what one address, or all, may have open, the one that has waited longest for a request makes room for the new one.
"""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD, BODY = 20.0, 60.0  # seconds
OF_ADDRESS = 256  # connections: a reader's browser has six, and one that follows the studio for each window
SPARE = 400  # descriptors left to the database, to files and to pictures that are read


def most() -> int:
    """Returns how many connections may be open at once."""
    return max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE)


class Connection(H11Protocol):
    """A connection whose wait for a request has an end."""

    since = 0.0  # when its wait for a head began, or the last piece of a body came
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self._timer = self.loop.call_later(HEAD, self._look)
        address = self.client and self.client[0]
        there = [c for c in self.connections if isinstance(c, Connection) and not c.transport.is_closing()]
        # Behind a proxy all come from its address: it bounds them (SECURITY.md).
        own = [] if self.config.proxy_headers else [c for c in there if c.client and c.client[0] == address]
        for group, limit in ((own, OF_ADDRESS), (there, most())):
            if len(group) > limit:
                idle = [c for c in group if c.is_waiting and c is not self]
                min(idle, key=lambda c: c.since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # else the head is not whole yet, however much of it comes
            self.since = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD, self._look)

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered on it."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _look(self) -> None:
        """Closes the connection if it has waited too long, or looks again when that may be."""
        self._timer = None
        sends = self.conn.their_state
        if sends not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            return  # the request is whole: the next one's first bytes begin another wait
        if self.flow.read_paused:  # what has come has not been taken yet
            self.since = self.loop.time()
        left = self.since + (HEAD if sends is h11.IDLE else BODY) - self.loop.time()
        if left <= 0:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(left, self._look)
