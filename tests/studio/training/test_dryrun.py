"""Dry runs: none is begun that memory does not hold."""

from __future__ import annotations

from core.engine.objectives.config import PretrainConfig
from core.studio.training import dryrun


def test_nothing_is_started_that_memory_does_not_hold(store, monkeypatch):
    started = []
    monkeypatch.setattr(dryrun.subprocess, "run", lambda *a, **k: started.append(a))
    monkeypatch.setattr(dryrun, "free_host_memory", lambda: dryrun.LEAST)
    found = dryrun.dry_run(store.home.path, "s", PretrainConfig().to_dict())
    assert not found["fits"] and "GB are free" in found["message"] and not started
    assert dryrun.least_memory(PretrainConfig(batch=64)) > dryrun.least_memory(PretrainConfig(batch=32)) > dryrun.LEAST
