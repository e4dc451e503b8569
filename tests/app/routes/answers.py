"""Notes which routes were answered, and holds answers that are no JSON against what their routes declare."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter


class Noted:
    """An ASGI application round another. seen: "METHOD path" of routes answered with 200; wrong: sentences on answers
    with another media type, or another head, than the route declares. A JSON answer is checked by the route itself.
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
        route = scope.get("route")
        if start.get("status") != 200 or not hasattr(route, "response_model"):
            return
        name = f"{scope['method']} {route.path}"
        self.seen.add(name)
        declared = route.responses.get(200)
        if declared is None:
            return
        kind = dict(start["headers"]).get(b"content-type", b"").decode().partition(";")[0]
        if kind not in declared["content"]:
            self.wrong.append(f"{name} answers {kind}, not {', '.join(declared['content'])}")
        if "model" in declared:
            length = int.from_bytes(body[:4], "little")
            try:
                TypeAdapter(declared["model"]).validate_json(bytes(body[4 : 4 + length]), strict=True)
            except ValueError as error:
                self.wrong.append(f"{name} has another head than it declares: {error}")
