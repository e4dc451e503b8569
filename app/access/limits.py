"""Limits on the size of request bodies: one is refused before it is read, or as soon as it exceeds the limit."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

Message = MutableMapping[str, Any]
KB, MB, GB = 2**10, 2**20, 2**30
USUAL = 2 * MB
LIMITS: tuple[tuple[re.Pattern[str], int], ...] = (  # the first pattern that matches the path applies
    (re.compile(r"/(sign-(in|out)|password|tokens)$"), 16 * KB),
    (re.compile(r"/api/study/drop/[^/]+$"), 8 * GB),  # less for readers, see app/routes/studies.py
    (re.compile(r"/api/export/bundle$"), 8 * GB),
    (re.compile(r"/api/export/[^/]+/annotations$"), 256 * MB),
    (re.compile(r"/api/review/mask/[^/]+$"), 64 * MB),
    (re.compile(r"/api/review/segment/[^/]+$"), 33 * MB),  # includes a mask to correct by clicks
    (re.compile(r"/api/review/draft/[^/]+$"), 9 * MB),
    (re.compile(r"/api/review/settings$"), 256 * KB),
    (re.compile(r"/api/programs/score$|/gradio_api/(queue/join|mcp/?)$"), 17 * MB),  # with an image as base64
)


def largest_body(path: str) -> int:
    """Returns the largest body in bytes that a request to `path` may have."""
    return next((limit for pattern, limit in LIMITS if pattern.search(path)), USUAL)


def sentence(limit: int) -> str:
    unit, name = next((u, n) for u, n in ((GB, "GB"), (MB, "MB"), (KB, "KB"), (1, "bytes")) if limit >= u)
    return f"This is too large: at most {limit // unit} {name} are accepted here."


def too_large(limit: int) -> JSONResponse:
    """Returns a 413 answer with a sentence; the connection closes, because the rest of the body is not read."""
    return JSONResponse({"ok": False, "error": sentence(limit)}, 413, {"Connection": "close"})


class BodyLimit:
    """Counts a request's body: beyond the limit the application sees a disconnect and the client gets 413."""

    def __init__(self, scope, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]):
        self._scope, self._receive, self._send = scope, receive, send
        self._limit = largest_body(scope["path"])
        self._size, self._answered, self._refused = 0, False, False

    def declared_too_large(self, length: str | None) -> bool:
        """Says whether the request's Content-Length is too large or not a number."""
        return length is not None and (not length.isdecimal() or int(length) > self._limit)

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > self._limit and not self._answered:
            self._refused = True
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        if not self._refused:
            self._answered = True
            await self._send(message)
        elif not self._answered:
            self._answered = True
            await self.refuse()

    async def run(self, app) -> None:
        """Runs the application while counting the request's body."""
        try:
            await app(self._scope, self.receive, self.send)
        except ClientDisconnect:
            if not self._refused:
                raise
            await self.send({})

    async def refuse(self) -> None:
        await too_large(self._limit)(self._scope, self._receive, self._send)


class TooLarge(Exception):
    """Raised by a route that counts its own input."""
