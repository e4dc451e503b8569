"""A database in which a job had one queue opens with two."""

from __future__ import annotations

import json
import os

import pytest

from core.studio.db import migrate as migrations
from core.studio.db.store import Store
from core.studio.jobs import execution
from core.studio.jobs import queue as jobs


def test_a_database_of_before_keeps_its_jobs(home, monkeypatch):
    with monkeypatch.context() as patch:
        before = [name for name in migrations.names() if name < "0310_job_lanes"]
        patch.setattr(migrations, "names", lambda: before)
        old = Store(home)
        assert "lane" not in old.db["jobs"].columns_dict
        for n, (step, state) in enumerate(
            [("pretrain", "running"), ("intake", "queued"), ("score", "queued"), ("intake", "done")], start=1
        ):
            chain = json.dumps([{"verb": step, "run": "", "args": {}}])
            old.db["jobs"].insert(
                {"id": n, "chain": chain, "verb": step, "status": state, "created": "2026-01-01", "pid": os.getpid()}
            )
        old.db.conn.commit()
        old.close()
    store = Store(home)
    kept = {row["id"]: (row["queue"], row["status"]) for row in store.query("SELECT * FROM jobs")}
    assert kept == {1: ("long", "running"), 2: ("short", "queued"), 3: ("long", "queued"), 4: ("short", "done")}
    assert jobs.get_job(store, 2)["chain"] == [{"step": "import", "run": "", "args": {}}]
    assert execution.claim(store, "long") is None and execution.claim(store, "short")["id"] == 2
    with pytest.raises(Exception, match="UNIQUE"):
        store.execute("UPDATE jobs SET status = 'running' WHERE id = 3")
