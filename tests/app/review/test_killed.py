"""Killed with SIGKILL at random moments while decisions arrive: each one answered `ok` is there afterwards, once."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

from core.studio.db import audit, opening
from core.studio.ingest import studies
from tests.app.conftest import ROOT
from tests.studio.review.conftest import draw_folder

TOTAL = int(os.environ.get("PMSACL_DECISIONS", "300"))
KILLS = 3
# The review room's own routes on their own, so that a start takes a second and not ten.
SERVER = """
import socket, sys, uvicorn
from fastapi import FastAPI
from app.context import Context
from app.routes.reviews import router
server = FastAPI()
server.state.ctx = Context(sys.argv[1])
server.include_router(router)
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(64)
print(s.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server, log_level="error")).run(sockets=[s])
"""


def start(home) -> tuple[subprocess.Popen, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(home)], env=environment, stdout=subprocess.PIPE, text=True
    )
    return process, f"http://127.0.0.1:{process.stdout.readline().strip()}/api/review/decide"


def send(url: str, case: int, number: int) -> bool:
    body = json.dumps({"case": case, "decision": "normal", "comment": f"number {number}", "token": f"t{number}"})
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["ok"]
    except (OSError, ValueError, http.client.HTTPException):  # the last: killed between an answer's head and its body
        return False


@pytest.mark.long
def test_no_answered_decision_is_lost_and_none_is_doubled(tmp_path):
    home = tmp_path / "home"
    store = opening.open(str(home))
    studies.import_study(store, "room", draw_folder(tmp_path / "images"))
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test'")]
    draw, answered, number = random.Random(0), [], 0
    process, url = start(home)
    # A kill falls while some decision is under way: after a drawn number of answers and a drawn part of a second.
    moments = sorted(draw.sample(range(30, TOTAL - 30), KILLS))
    try:
        while number < TOTAL:
            if moments and len(answered) >= moments[0]:
                moments.pop(0)
                threading.Timer(draw.uniform(0, 0.02), process.send_signal, [signal.SIGKILL]).start()
            if send(url, ids[number % len(ids)], number):
                answered.append(number)
                number += 1
            else:  # the same request again, as the page does: its token marks it as a repetition
                process.wait(30)
                process, url = start(home)
    finally:
        process.kill()
        process.wait()
    kept = [int(r["comment"].split()[1]) for r in store.query("SELECT comment FROM reviews ORDER BY id")]
    assert not moments and kept == answered == list(range(TOTAL))
    found = audit.verify(store)
    assert found["ok"] and found["events"] == TOTAL
