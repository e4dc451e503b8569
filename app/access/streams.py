"""Keeps sessions of Gradio's queue apart by reader: the same session name from another reader is another session.

Gradio streams what a session's functions answer to whoever names the session, so that a name that is guessed or seen
would be enough to read along, to cancel, or to end it.
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
    """ASGI middleware around Gradio: each `session_hash` that `user` names becomes one of their own."""

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
            asked = json.loads(body)
            if isinstance(asked, dict) and isinstance(asked.get(NAME), str):
                asked[NAME] = self.own(asked[NAME])
            # Gradio breaks off where it is to repeat what no JSON may have: NaN, Infinity, half of a surrogate pair.
            body = json.dumps(asked, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            answer = JSONResponse({"ok": False, "error": "The request's body is not JSON."}, 422)
            return await answer(scope, receive, send)
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return given.pop() if given else await receive()

        return await self.app(scope, again, send)
