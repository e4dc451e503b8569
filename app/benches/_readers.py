"""What one reader of the load bench does: opens a case, fetches its picture, thinks for a moment and decides."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

STUDY = "load"
KEPT = 3.0  # seconds; the server keeps an idle connection for 5


@dataclass
class Heard:
    """What one reader measured: seconds of each call by kind, what went wrong, the reviews that were answered."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"case": [], "picture": [], "decision": []})
    errors: list[str] = field(default_factory=list)
    reviews: list[int] = field(default_factory=list)


def connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)


def read(
    url: str,
    cookie: str,
    seed: int,
    thinks: tuple[float, float],
    heard: Heard,
    start: threading.Barrier,
    stop: threading.Event,
) -> None:
    """Decide until `stop`: the unread cases, then all again. thinks: least and most seconds before a decision."""
    draw = random.Random(seed)
    connection = connect(url)
    case, unread, listed = 0, 1, {"study": STUDY, "split": "test"}

    def call(kind: str, method: str, path: str, body: dict | None = None) -> bytes:
        started = time.monotonic()
        head = {"Cookie": cookie, "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), head)
        answer = connection.getresponse()
        content = answer.read()
        heard.seconds[kind].append(time.monotonic() - started)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {content[:200]!r}")
        return content

    start.wait(60)
    while not stop.is_set():
        try:
            if not case:
                asked = urlencode({**listed, "case": 0, "back": 0, "unread": unread})
                found = json.loads(call("case", "GET", f"/api/review/step?{asked}"))["case"]
                if not found:
                    unread = 0
                    continue
                case = found["id"]
            call("picture", "GET", f"/api/case/{case}/pack")
            pause = draw.uniform(*thinks)
            if stop.wait(pause):
                return
            if pause > KEPT:  # the server has closed the connection meanwhile: a browser would open another by itself
                connection.close()
            decision = draw.choice(["normal", "abnormal", "unsure"])
            body = {"case": case, "decision": decision, "token": f"{seed}-{case}-{draw.random()}", "list": listed}
            done = json.loads(call("decision", "POST", "/api/review/decide", body))
            heard.reviews.append(done["review"])
            case = (done["next"] or {}).get("id", 0)
        except Exception as error:
            heard.errors.append(f"{type(error).__name__}: {error}"[:200])
            connection.close()
            case = 0
