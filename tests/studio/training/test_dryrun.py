"""Dry runs take turns: one of a reader, two in all; none is begun that memory does not hold."""

from __future__ import annotations

import pytest

from core.engine.objectives.config import PretrainConfig
from core.studio.training import dryrun


def test_one_of_a_reader_two_in_all_in_their_order():
    turns = dryrun.Turns()
    asked = [(who, turns.ask(who)) for who in ("ann", "ann", "ann", "bob", "cid", "dan")]
    order = []
    while asked:
        at_work = [(who, turn) for who, turn in asked if turns.comes(turn)]
        assert 1 <= len(at_work) <= dryrun.AT_ONCE
        assert len({who for who, _ in at_work}) == len(at_work)
        first = at_work[0]
        order.append(first[0])
        turns.leave(first[1])
        asked.remove(first)
    assert order == ["ann", "ann", "ann", "bob", "cid", "dan"]


def test_who_leaves_the_queue_holds_nobody_up():
    turns = dryrun.Turns()
    first, gone, last = turns.ask("ann"), turns.ask("ann"), turns.ask("ann")
    assert turns.comes(first) and not turns.comes(gone)
    turns.leave(gone)
    turns.leave(first)
    assert turns.comes(last)


def test_a_reader_cannot_fill_the_queue():
    turns = dryrun.Turns()
    for _ in range(dryrun.WAITING + 1):
        turns.ask("ann")
    with pytest.raises(ValueError, match="still at work"):
        turns.ask("ann")
    assert turns.comes(turns.ask("bob"))


def test_nothing_is_started_that_memory_does_not_hold(store, monkeypatch):
    started = []
    monkeypatch.setattr(dryrun.subprocess, "run", lambda *a, **k: started.append(a))
    monkeypatch.setattr(dryrun, "free_host_memory", lambda: dryrun.LEAST)
    found = dryrun.dry_run(store.home.path, "s", PretrainConfig().to_dict())
    assert not found["fits"] and "GB are free" in found["message"] and not started
    assert dryrun.least_memory(PretrainConfig(batch=64)) > dryrun.least_memory(PretrainConfig(batch=32)) > dryrun.LEAST
