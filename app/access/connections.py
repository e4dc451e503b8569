"""Limits on connections: slow requests are cut off, and no address can occupy all connections.

A connection is closed if a request's head takes longer than HEAD seconds, or if its body pauses for BODY seconds. If
too many connections are open, in total or from one address, the one that has been idle longest is closed.
"""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD, BODY = 20.0, 60.0  # seconds
OF_ADDRESS = 256  # connections per address: a browser opens six, and one event stream for each window
SPARE = 400  # file descriptors reserved for the database and other files


def most() -> int:
    """Returns the maximum number of open connections."""
    return max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE)


class Connection(H11Protocol):
    """HTTP connection that is closed if a request takes too long to arrive."""

    since = 0.0  # time at which the wait for a head began, or the last part of a body arrived
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        self._timer = self.loop.call_later(HEAD, self._look)
        address = self.client and self.client[0]
        active = [c for c in self.connections if isinstance(c, Connection) and not c.transport.is_closing()]
        # Behind a proxy all clients share the proxy's address, so the proxy must limit them (SECURITY.md).
        same_address = [] if self.config.proxy_headers else [c for c in active if c.client and c.client[0] == address]
        for group, limit in ((same_address, OF_ADDRESS), (active, most())):
            if len(group) > limit:
                idle = [c for c in group if c.is_waiting and c is not self]
                min(idle, key=lambda c: c.since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # an incomplete head does not extend the wait
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
        """Whether the connection is idle: no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _look(self) -> None:
        """Closes the connection if it has waited too long, else schedules the next check."""
        self._timer = None
        sends = self.conn.their_state
        if sends not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            return  # the request is complete; the next request starts another wait
        if self.flow.read_paused:  # the application has yet to read what has arrived
            self.since = self.loop.time()
        remaining = self.since + (HEAD if sends is h11.IDLE else BODY) - self.loop.time()
        if remaining <= 0:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(remaining, self._look)
