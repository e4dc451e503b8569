"""Separates the sessions of Gradio's queue by reader: the same name from another reader is another session.

Gradio streams a session's results to anyone who names the session, so that a guessed or observed name would be enough
to read them, to cancel the session or to end it.
"""

from __future__ import annotations

import hashlib
import json
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse

GRADIO = "/gradio_api/"
HEARTBEAT = "heartbeat/"
NAME = "session_hash"


class OwnQueue:
    """ASGI middleware around Gradio that replaces each `session_hash` with one that only its `user` has."""

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
            # Gradio fails when it must repeat values that JSON does not allow: NaN, Infinity, half of a surrogate pair.
            body = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            answer = JSONResponse({"ok": False, "error": "The request's body is not JSON."}, 422)
            return await answer(scope, receive, send)
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return pending.pop() if pending else await receive()

        return await self.app(scope, again, send)
