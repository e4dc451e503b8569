"""Holds what the routes answer against their models: exactly the keys, exactly the types."""

from __future__ import annotations

import functools
import json
from typing import Any

from pydantic import TypeAdapter

from app.routes._answers import ANSWERS, BINARY, HEADS


@functools.cache
def adapter(route: str) -> TypeAdapter[Any]:
    """Of the route's answer, or of the head of one that is no JSON."""
    return TypeAdapter(ANSWERS[route] if route in ANSWERS else HEADS[route])


def check(route: str, kind: str, body: bytes) -> bool:
    """Whether `body` is an answer that the route's model was held against. Raises ValueError if it does not fit.

    route: "METHOD path"; kind: the media type; body: of an answer with status 200.
    """
    if route in BINARY:
        if kind.partition(";")[0] not in BINARY[route]:
            raise ValueError(f"{route} answers {kind}, not {', '.join(BINARY[route])}")
        if route in HEADS:
            length = int.from_bytes(body[:4], "little")
            adapter(route).validate_json(body[4 : 4 + length], strict=True)
        return route in HEADS
    said = json.loads(body)
    if said.pop("ok") is False:
        if set(said) != {"error"}:
            raise ValueError(f"{route} says that it failed, and {said}")
        return False
    adapter(route).validate_json(json.dumps(said), strict=True)
    return True


class Checked:
    """An ASGI application whose answers are held against their models.

    seen: routes whose answers were; wrong: sentences on those that do not fit.
    """

    def __init__(self, app):
        self.app, self.seen, self.wrong = app, set[str](), list[str]()

    async def __call__(self, scope, receive, send) -> None:
        start: dict[str, Any] = {}
        body = bytearray()

        async def kept(message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
            await send(message)

        await self.app(scope, receive, kept)
        route = f"{scope.get('method')} {getattr(scope.get('route'), 'path', '')}"
        if start.get("status") == 200 and (route in ANSWERS or route in BINARY):
            kind = dict(start["headers"]).get(b"content-type", b"").decode()
            try:
                if check(route, kind, bytes(body)):
                    self.seen.add(route)
            except ValueError as error:
                self.wrong.append(f"{route} does not answer as app/routes/_answers says: {error}")
