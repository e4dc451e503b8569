"""Middleware that checks every request (reader, origin, size, queue session) and sets the headers of every answer.

app/access/permissions.py decides what a signed-in reader may do.

Every answer has a content security policy, which tells the browser what the answer may load and run: nothing from other
servers, and no inline script. Gradio's page has script elements with its configuration, which get a fresh nonce in each
answer. Gradio also evaluates templates, which requires 'unsafe-eval', and writes style attributes, which requires
'unsafe-inline' for styles. The studio's own pages require neither.

Anyone who knows the name of a session of Gradio's queue can read its results, cancel it and end it. `OwnQueue`
therefore replaces the name with one that depends on the reader.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import secrets
import weakref
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?)(?::\d{1,5})?")
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,100}){1,10}")  # a path below which a proxy serves the studio
OPEN = ("/sign-in", "/page/static/", "/favicon")
OWN_PAGES = ("/sign-in", "/password", "/tokens", "/tour")
CORS = b"access-control-"
AT_ONCE = 12  # requests of one reader that are answered at a time; the server has forty threads
STREAMS = {"/api/status/events"}
USED = {
    *("queue/join", "queue/data", "run/predict", "startup-events", "info", "app_id", "reset", "cancel"),
    *("mcp", "mcp/"),  # tools for programs: app/endpoints.py
}
"""Paths below GRADIO that the page and programs use. All other paths, such as uploads and files, are closed."""
BUILT = "/assets/"  # Gradio's scripts and style sheets, whose file names contain their version


class Guard:
    """ASGI middleware that checks requests and adds headers to answers. `head` is HTML for the page's head."""

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
        """Returns the application as served below the path `prefix`, so that Gradio's addresses start with `prefix`."""

        async def below(scope, receive, send):
            path, raw = prefix + scope["path"], prefix.encode() + scope.get("raw_path", scope["path"].encode())
            await self.app({**scope, "root_path": prefix, "path": path, "raw_path": raw}, receive, send)

        return below if prefix else self.app

    def _gate(self, user: str | None, path: str) -> contextlib.AbstractAsyncContextManager:
        """Returns a context manager that admits AT_ONCE requests of a reader at a time, to keep threads for others."""
        if user is None or path.startswith(GRADIO) or path in STREAMS:  # Gradio's functions call routes, counted there
            return contextlib.nullcontext()
        gates = self._gates.setdefault(asyncio.get_running_loop(), {})
        return gates.setdefault(user, asyncio.Semaphore(AT_ONCE))

    def _refuse(self, request: Request):
        hosts = request.headers.getlist("host")
        host = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return PlainTextResponse("The request must have exactly one valid Host header.", 400)
        if self.ctx.single_user and host["name"].strip("[]").lower() not in LOOPBACK:
            # Otherwise a foreign name that resolves to this machine could reach a page without sign-in.
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
        """Returns a `send` that adds the headers, and inserts `head` into Gradio's page earlier than Gradio would."""
        is_gradio = scope["path"] == "/" and scope["method"] == "GET"
        is_page = is_gradio or scope["path"] in OWN_PAGES
        start, body = {}, bytearray()

        async def dressed(message):
            if message["type"] == "http.response.start":
                # Gradio would allow pages on other ports of this machine to read answers.
                allowed = [(name, value) for name, value in message["headers"] if not name.lower().startswith(CORS)]
                message = {**message, "headers": allowed}
                headers = MutableHeaders(raw=message["headers"])
                if prefix and headers.get("location", "").startswith("/"):
                    headers["Location"] = prefix + headers["location"]
                headers["Content-Security-Policy"] = ANSWER_POLICY
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
                    page = with_nonce(page.replace(b"<head>", b"<head>" + self.head, 1), nonce)
                    headers["Content-Security-Policy"] = policy_of_gradio(nonce)
                else:
                    headers["Content-Security-Policy"] = policy_of_page(page)
                headers["Content-Length"] = str(len(page))
                await send(start)
                await send({"type": "http.response.body", "body": page})
                return
            await send(message)

        return dressed


def _closed(path: str) -> JSONResponse | None:
    """Returns a 404 answer if Gradio serves the path but neither the page nor a program uses it, else None."""
    below = path.removeprefix(GRADIO)
    if below == path or below in USED or below.startswith(HEARTBEAT):
        return None
    return JSONResponse({"ok": False, "error": "There is nothing at this address."}, 404)


def _netloc(origin: str) -> str | None:
    """Returns the host and port of an Origin header, or None if the header is "null" or invalid."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


_FRAMES = "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
_DATA = "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:"
_STYLE = re.compile(rb"<style[^>]*>(.*?)</style>", re.DOTALL)
_SCRIPT = re.compile(rb"<script\b([^>]*>.*?</script)", re.DOTALL | re.IGNORECASE)

ANSWER_POLICY = f"default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; {_FRAMES}"
"""Content security policy of all answers except pages. An answer that is opened directly runs no scripts."""


def policy_of_page(html: bytes) -> str:
    """Returns the content security policy of one of the studio's own pages, which allows the page's style elements."""
    digests = (base64.b64encode(hashlib.sha256(s).digest()).decode() for s in _STYLE.findall(html))
    styles = " ".join(f"'sha256-{d}'" for d in digests)
    sources = f"script-src 'self'; style-src 'self' {styles}".strip()
    return f"default-src 'none'; {sources}; {_DATA}; frame-src 'self'; {_FRAMES}"


def policy_of_gradio(nonce: str) -> str:
    """Returns the content security policy of Gradio's page, which allows script elements with the given nonce."""
    sources = f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"
    return f"default-src 'self'; {sources}; {_DATA}; {_FRAMES}"


def with_nonce(html: bytes, nonce: str) -> bytes:
    """Returns the page with the nonce added to each script element."""
    return _SCRIPT.sub(rb'<script nonce="%s"\1' % nonce.encode(), html)


Message = MutableMapping[str, Any]
KB, MB, GB = 2**10, 2**20, 2**30
USUAL = 2 * MB
LIMITS: tuple[tuple[re.Pattern[str], int], ...] = (  # the first pattern that matches the path applies
    (re.compile(r"/(sign-(in|out)|password|tokens)$"), 16 * KB),
    (re.compile(r"/api/study/drop/[^/]+$"), 8 * GB),  # readers have a lower limit (app/routes/studies.py)
    (re.compile(r"/api/export/bundle$"), 8 * GB),
    (re.compile(r"/api/export/[^/]+/annotations$"), 256 * MB),
    (re.compile(r"/api/review/mask/[^/]+$"), 64 * MB),
    (re.compile(r"/api/review/segment/[^/]+$"), 33 * MB),  # includes a mask to correct by clicks
    (re.compile(r"/api/review/draft/[^/]+$"), 9 * MB),
    (re.compile(r"/api/review/settings$"), 256 * KB),
    (re.compile(r"/api/programs/score$|/gradio_api/(queue/join|mcp/?)$"), 17 * MB),  # with an image as base64
)


def largest_body(path: str) -> int:
    """Returns the maximum size, in bytes, of the body of a request to `path`."""
    return next((limit for pattern, limit in LIMITS if pattern.search(path)), USUAL)


def _size_sentence(limit: int) -> str:
    unit, name = next((u, n) for u, n in ((GB, "GB"), (MB, "MB"), (KB, "KB"), (1, "bytes")) if limit >= u)
    return f"This is too large: at most {limit // unit} {name} are accepted here."


def too_large(limit: int) -> JSONResponse:
    """Returns a 413 response that states the limit. It closes the connection, because the whole body is not read."""
    return JSONResponse({"ok": False, "error": _size_sentence(limit)}, 413, {"Connection": "close"})


class BodyLimit:
    """ASGI wrapper that rejects a request with status 413 as soon as its body exceeds the limit for its path."""

    def __init__(self, scope, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]):
        self._scope, self._receive, self._send = scope, receive, send
        self._limit = largest_body(scope["path"])
        self._size, self._answered, self._refused = 0, False, False

    def declared_too_large(self, length: str | None) -> bool:
        """Returns whether the request's Content-Length exceeds the limit or is not a number."""
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
        """Runs the application, and answers with status 413 if the request's body exceeds the limit."""
        try:
            await app(self._scope, self.receive, self.send)
        except ClientDisconnect:
            if not self._refused:
                raise
            await self.send({})

    async def refuse(self) -> None:
        await too_large(self._limit)(self._scope, self._receive, self._send)


GRADIO = "/gradio_api/"
HEARTBEAT = "heartbeat/"
NAME = "session_hash"


class OwnQueue:
    """ASGI middleware around Gradio that replaces each `session_hash` with a hash of it and of the reader `user`."""

    def __init__(self, app, user: str | None):
        self.app, self.user = app, user

    def own(self, name: str) -> str:
        return hashlib.sha256(json.dumps([self.user, name]).encode()).hexdigest()

    async def __call__(self, scope, receive, send):
        path = scope["path"]
        if not path.startswith(GRADIO):
            return await self.app(scope, receive, send)
        below, query = path.removeprefix(GRADIO), scope["query_string"].decode("latin-1")
        if below.startswith(HEARTBEAT):
            path = f"{GRADIO}{HEARTBEAT}{self.own(below.removeprefix(HEARTBEAT))}"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        if NAME in query or "%" in query:
            pairs = [(key, self.own(value) if key == NAME else value) for key, value in parse_qsl(query, True)]
            scope = {**scope, "query_string": urlencode(pairs).encode()}
        if scope["method"] != "POST":
            return await self.app(scope, receive, send)
        body = await Request(scope, receive).body()
        try:
            message = json.loads(body)
            if isinstance(message, dict) and isinstance(message.get(NAME), str):
                message[NAME] = self.own(message[NAME])
            # Gradio fails to repeat values that JSON does not allow: NaN, Infinity, half of a surrogate pair.
            body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            answer = JSONResponse({"ok": False, "error": "The request's body is not JSON."}, 422)
            return await answer(scope, receive, send)
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return pending.pop() if pending else await receive()

        return await self.app(scope, again, send)
