"""The first check of every request (reader, origin, size), and the headers of every answer.

app/access/permissions.py decides what a signed-in reader may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import weakref
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse

from app.access import policy
from app.access.limits import BodyLimit
from app.access.streams import GRADIO, HEARTBEAT, OwnQueue

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?)(?::\d{1,5})?")
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,100}){1,10}")  # the path below which a proxy serves the studio
OPEN = ("/sign-in", "/page/static/", "/favicon")
OWN_PAGES = ("/sign-in", "/password", "/tokens", "/tour")
CORS = b"access-control-"
AT_ONCE = 12  # requests of one reader answered at the same time, by forty threads in all
STREAMS = {"/api/status/events"}
USED = {
    *("queue/join", "queue/data", "run/predict", "startup-events", "info", "app_id", "reset", "cancel"),
    *("mcp", "mcp/"),  # tools for programs: app/endpoints.py
}
"""What the page and programs ask of Gradio, below GRADIO. All else is closed: uploads, files, calls by name."""
BUILT = "/assets/"  # Gradio's scripts and style sheets: each version has its own file name


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app, ctx, head: str):
        self.app = app
        self.ctx = ctx
        self.head = head.encode()
        self._gates: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":  # the page uses none
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        outer_path = request.headers.get("x-forwarded-prefix", "").rstrip("/") if self.ctx.proxied else ""
        prefix = outer_path if PREFIX.fullmatch(outer_path) else ""
        send = self._dressed(scope, send, prefix)
        refusal = self._refuse(request)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = BodyLimit(scope, receive, send)
        if body.declared_too_large(request.headers.get("content-length")):
            await body.refuse()
        else:
            user = request.scope["state"]["user"]
            async with self._gate(user, request.url.path):
                await body.run(OwnQueue(self._below(prefix), user))

    def _below(self, prefix: str):
        """Returns the application served below a path: Gradio's addresses in the browser then begin with it."""

        async def below(scope, receive, send):
            path, raw = prefix + scope["path"], prefix.encode() + scope.get("raw_path", scope["path"].encode())
            await self.app({**scope, "root_path": prefix, "path": path, "raw_path": raw}, receive, send)

        return below if prefix else self.app

    def _gate(self, user: str | None, path: str) -> contextlib.AbstractAsyncContextManager:
        """Admits AT_ONCE requests of a reader at a time, so that threads remain for the others."""
        if user is None or path.startswith(GRADIO) or path in STREAMS:  # Gradio's functions call routes, counted there
            return contextlib.nullcontext()
        gates = self._gates.setdefault(asyncio.get_running_loop(), {})
        return gates.setdefault(user, asyncio.Semaphore(AT_ONCE))

    def _refuse(self, request: Request):
        hosts = request.headers.getlist("host")
        host = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return PlainTextResponse("The request's Host header is not one that a browser sends.", 400)
        if self.ctx.single_user and host["name"].strip("[]").lower() not in LOOPBACK:
            # A foreign name that resolves to this machine must not reach a page without sign-in.
            return PlainTextResponse("This studio answers on localhost only. Start it with --readers to share it.", 403)
        origin = request.headers.get("origin")
        if request.method not in ("GET", "HEAD") and origin is not None and _netloc(origin) != hosts[0]:
            return PlainTextResponse("This request comes from another page.", 403)
        user = self.ctx.user_of(request)
        request.scope.setdefault("state", {})["user"] = user
        if user is not None or request.url.path.startswith(OPEN):
            return _closed(request.url.path)
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            query = f"?next=/%3F{request.url.query.replace('&', '%26')}" if request.url.query else ""
            return RedirectResponse(f"/sign-in{query}", 303)
        return JSONResponse({"ok": False, "error": "Please sign in."}, 401)

    def _dressed(self, scope, send, prefix: str = ""):
        """Returns a `send` that adds the headers, and our head to Gradio's page (Gradio would add it too late)."""
        is_gradio = scope["path"] == "/" and scope["method"] == "GET"
        is_page = is_gradio or scope["path"] in OWN_PAGES
        start, body = {}, bytearray()

        async def dressed(message):
            if message["type"] == "http.response.start":
                # No other page may read an answer: Gradio would allow pages on other ports of this machine.
                allowed = [(name, value) for name, value in message["headers"] if not name.lower().startswith(CORS)]
                message = {**message, "headers": allowed}
                headers = MutableHeaders(raw=message["headers"])
                if prefix and headers.get("location", "").startswith("/"):
                    headers["Location"] = prefix + headers["location"]
                headers["Content-Security-Policy"] = policy.ANSWER
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
                if scope["path"].startswith(BUILT) and message["status"] == 200:
                    headers["Cache-Control"] = "public, max-age=31536000, immutable"
                if is_page and "text/html" in Headers(raw=message["headers"]).get("content-type", ""):
                    headers["Cache-Control"] = "no-store"
                    start.update(message)
                    return
            elif start and message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                page = bytes(body)
                headers = MutableHeaders(raw=start["headers"])
                if is_gradio:
                    nonce = secrets.token_urlsafe(16)
                    page = policy.with_nonce(page.replace(b"<head>", b"<head>" + self.head, 1), nonce)
                    headers["Content-Security-Policy"] = policy.of_gradio(nonce)
                else:
                    headers["Content-Security-Policy"] = policy.of_own_page(page)
                headers["Content-Length"] = str(len(page))
                await send(start)
                await send({"type": "http.response.body", "body": page})
                return
            await send(message)

        return dressed


def _closed(path: str) -> JSONResponse | None:
    """Returns a 404 for paths that Gradio serves but neither the page nor a program uses."""
    below = path.removeprefix(GRADIO)
    if below == path or below in USED or below.startswith(HEARTBEAT):
        return None
    return JSONResponse({"ok": False, "error": "There is nothing at this address."}, 404)


def _netloc(origin: str) -> str | None:
    """Returns the host and port of an Origin header, or None if it is "null" or invalid."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
