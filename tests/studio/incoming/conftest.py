"""A watched folder whose clock stands still until it is moved."""

import pytest

from core.studio.incoming import watch
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker


@pytest.fixture
def clock():
    """A clock that stands still until it is moved: clock[0] += seconds."""
    return [1000.0]


@pytest.fixture
def watched(store, tiny_study, tmp_path, monkeypatch):
    """(store, study, folder); no worker is started, the tests run the jobs themselves."""
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: None)
    folder = tmp_path / "drop"
    folder.mkdir()
    watch.set_watch(store, tiny_study, str(folder), "root")
    return store, tiny_study, folder


def look(store, clock):
    """Two looks, far enough apart for what lies still."""
    first = watch.look(store, lambda: clock[0])
    clock[0] += watch.SETTLE
    return first + watch.look(store, lambda: clock[0])


def states(store):
    return {r["path"].rsplit("/", 1)[1]: r["state"] for r in store.query("SELECT * FROM incoming")}


def run_jobs(store):
    worker.run_queue(store)
