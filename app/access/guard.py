"""The one gate before everything: who asks, from where, and with which headers the answer leaves."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse

LOOPBACK = {"localhost", "127.0.0.1", "::1"}
TELLS = ("/api/study", "/api/clusters", "/api/training", "/api/results")  # rooms that show scores, labels and names
OPEN = ("/sign-in", "/page/static/", "/favicon")
# Gradio evaluates its templates and writes style attributes, hence the two `unsafe` words; nothing comes from outside.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; frame-ancestors 'self'"
)


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app, ctx, head: str):
        self.app = app
        self.ctx = ctx
        self.head = head.encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refuse(request)
        if refusal is None:
            send = self._dressed(scope, send)
            await self.app(scope, receive, send)
        else:
            await refusal(scope, receive, self._dressed(scope, send))

    def _refuse(self, request: Request):
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        if self.ctx.single_user and host not in LOOPBACK:
            # A foreign name that resolves to this machine must not reach a page without sign-in.
            return PlainTextResponse("This studio answers on localhost only. Start it with --readers to share it.", 403)
        origin = request.headers.get("origin")
        if request.method not in ("GET", "HEAD", "OPTIONS") and origin not in (None, "null"):
            if urlsplit(origin).netloc != request.headers.get("host"):
                return PlainTextResponse("This request comes from another page.", 403)
        elif request.method not in ("GET", "HEAD", "OPTIONS") and origin == "null":
            return PlainTextResponse("This request comes from another page.", 403)
        user = self.ctx.user_of(request)
        request.scope.setdefault("state", {})["user"] = user
        path = request.url.path
        if user is not None and path.startswith(TELLS) and not self.ctx.single_user:
            from core.studio.review import blind

            if blind.reads_blind(self.ctx.store(), user):
                text = "A study is being read blind: until it is done, only Review is open to its readers."
                return JSONResponse({"ok": False, "error": text}, 403)
        if user is not None or path.startswith(OPEN):
            return None
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            query = f"?next=/%3F{request.url.query.replace('&', '%26')}" if request.url.query else ""
            return RedirectResponse(f"/sign-in{query}", 303)
        return JSONResponse({"ok": False, "error": "Please sign in."}, 401)

    def _dressed(self, scope, send):
        """`send` that adds the headers, and the page's own head to Gradio's page (which would add it too late)."""
        is_page = scope["path"] == "/" and scope["method"] == "GET"
        start, body = {}, bytearray()

        async def dressed(message):
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers["Content-Security-Policy"] = POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
                if is_page and "text/html" in Headers(raw=message["headers"]).get("content-type", ""):
                    headers["Cache-Control"] = "no-store"
                    start.update(message)
                    return
            elif start and message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                page = bytes(body).replace(b"<head>", b"<head>" + self.head, 1)
                MutableHeaders(raw=start["headers"])["Content-Length"] = str(len(page))
                await send(start)
                await send({"type": "http.response.body", "body": page})
                return
            await send(message)

        return dressed
