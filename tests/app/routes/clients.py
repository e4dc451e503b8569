"""Clients of the routes without a browser, which hold answers that are no JSON against what their routes declare."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from app import routes
from app.context import Context
from app.routes import errors

PASSWORD = "a long password"


class Client(TestClient):
    """Asks, and fails with an AssertionError where an answer that is no JSON is not what its route declares."""

    def __init__(self, app, **options):
        self.checked = Noted(app)
        super().__init__(self.checked, **options)
        self.app = app  # as any other client has it

    def send(self, *args, **options):
        answer = super().send(*args, **options)
        wrong, self.checked.wrong = self.checked.wrong, []
        assert not wrong, "\n".join(wrong)
        return answer


class NamedByHeader(Context):
    """Who asks is said in the header X-User instead of a session."""

    def signed_in(self, request) -> str | None:
        return request.headers.get("x-user", "ann")


def client_of(store, single_user: bool = False) -> Client:
    """Every route of the page, without Gradio and without the guard."""
    ctx = NamedByHeader(home=store.home, single_user=single_user, _store=store)
    server = FastAPI()
    errors.add_handlers(server, store.home.path)
    routes.include_all(server, ctx)
    return Client(server, raise_server_exceptions=False)


def whole_server(store, single_user: bool = False) -> FastAPI:
    """The server as it is served, on the store's home."""
    from app.server import build

    return build(store.home, single_user)


def visitor(server: FastAPI, name: str | None = None, **options) -> Client:
    """A browser: signed in as `name`, or as nobody."""
    client = Client(server, base_url="http://localhost", raise_server_exceptions=False, **options)
    if name is not None:
        sessions = server.state.ctx.sessions
        client.cookies.set(sessions.COOKIE, sessions.start(name))
    return client


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
