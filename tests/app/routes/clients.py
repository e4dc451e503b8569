"""Clients of the routes without a browser: every route by itself, or the whole server."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient

from app import routes
from app.context import Context
from app.routes import errors
from tests.app.routes.answers import Noted

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
