"""Jobs are queued here and never run: no test of this folder starts a worker."""

from __future__ import annotations

import pytest

from core.studio.jobs import queue


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch):
    monkeypatch.setattr(queue, "ensure_worker", lambda store: [])
