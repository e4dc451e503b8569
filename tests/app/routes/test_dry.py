"""Six dry runs at once by one reader: one at work at a time, all answered; others have their turn beside them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.studio.review import people
from core.studio.training import dryrun
from tests.app.routes.clients import PASSWORD, client_of
from tests.app.routes.every_route import SMALL
from tests.studio.review.conftest import STUDY, room  # noqa: F401


@pytest.mark.slow
def test_dry_runs_take_turns(room, monkeypatch):  # noqa: F811
    store, _ = room
    for name in ("ann", "bob", "cid"):
        people.add_reader(store, name, PASSWORD, "reader")
    client, lock = client_of(store), threading.Lock()
    at_work, most = [0], [0]

    def measured(*asked) -> dict:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.05)
        with lock:
            at_work[0] -= 1
        return {"fits": False, "message": ""}

    monkeypatch.setattr(dryrun, "dry_run", measured)

    def ask(who: str) -> int:
        body = {"study": STUDY, "config": SMALL}
        return client.post("/api/training/dry", json=body, headers={"x-user": who}).status_code

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(ask, ["ann"] * 6)) == {200}
        assert most == [1]
        assert set(pool.map(ask, ["ann", "bob", "cid"] * 3)) == {200}
        assert most == [2]
