"""What is heavy takes turns: one of a reader, all within a budget; no reader keeps others from being answered."""

from __future__ import annotations

import threading
import time

import pytest

from app.access import guard
from app.access.turns import DryTurns, Turns
from core.studio.db.limits import LIMITS, MB, TooMuch
from core.studio.medmix import preview
from core.studio.review import people
from core.studio.training.dryrun import LEAST
from tests.app.routes.clients import PASSWORD, client_of, visitor, whole_server
from tests.conftest import at_once
from tests.studio.review.conftest import STUDY, room  # noqa: F401


def test_one_of_a_reader_two_in_all_in_their_order():
    turns = DryTurns()
    asked = [(who, turns.ask(who, LEAST)) for who in ("ann", "ann", "ann", "bob", "cid", "dan")]
    order = []
    while asked:
        at_work = [(who, turn) for who, turn in asked if turns.comes(turn)]
        assert 1 <= len(at_work) <= 2
        assert len({who for who, _ in at_work}) == len(at_work)
        first = at_work[0]
        order.append(first[0])
        turns.leave(first[1])
        asked.remove(first)
    assert order == ["ann", "ann", "ann", "bob", "cid", "dan"]


def test_who_leaves_the_queue_holds_nobody_up():
    turns = DryTurns()
    first, gone, last = turns.ask("ann", LEAST), turns.ask("ann", LEAST), turns.ask("ann", LEAST)
    assert turns.comes(first) and not turns.comes(gone)
    turns.leave(gone)
    turns.leave(first)
    assert turns.comes(last)


def test_a_reader_cannot_fill_the_queue():
    turns = DryTurns()
    for _ in range(LIMITS["turn"].most):
        turns.ask("ann", LEAST)
    with pytest.raises(TooMuch, match="still being computed"):
        turns.ask("ann", LEAST)
    assert turns.comes(turns.ask("bob", LEAST))


def test_a_large_one_waits_for_room_and_is_not_passed_by():
    turns = Turns()
    first, large, small = (turns.ask(who, size * MB) for who, size in (("ann", 800), ("bob", 900), ("cid", 300)))
    assert [turns.comes(turn) for turn in (first, large, small)] == [True, False, False]
    turns.leave(first)
    assert [turns.comes(turn) for turn in (large, small)] == [True, True]


@pytest.mark.slow
def test_grids_of_a_reader_come_one_after_the_other_and_of_all_within_the_budget(room, monkeypatch):  # noqa: F811
    store, _ = room
    for name in ("ann", "bob", "cid", "dan", "eve"):
        people.add_reader(store, name, PASSWORD, "reader")
    lock, at_work, most = threading.Lock(), [], []

    def drawn(*given, **options):
        with lock:
            at_work.append(1)
            most.append(len(at_work))
        time.sleep(0.1)
        with lock:
            at_work.pop()
        raise ValueError("no picture is wanted here")

    monkeypatch.setattr(preview, "draw_grid", drawn)
    with client_of(store) as client:

        def ask(who: str) -> int:
            body = {"scene": {"study": STUDY}}
            return client.post("/api/medmix/grid", json=body, headers={"x-user": who}).status_code

        assert at_once(lambda i: ask("ann"), 6) == [400] * 6 and max(most) == 1
        most.clear()
        at_once(lambda i: ask(("ann", "bob", "cid", "dan", "eve")[i % 5]), 15)
        assert 1 < max(most) <= Turns.budget // (400 * MB)


@pytest.mark.slow
def test_a_reader_who_asks_for_much_keeps_no_other_waiting(room, monkeypatch):  # noqa: F811
    """Sixty slow requests of one reader at once, more than there are threads: another reader is answered meanwhile."""
    store, _ = room
    for name in ("ann", "bob"):
        people.add_reader(store, name, PASSWORD, "reader")
    left, at_work = threading.Event(), []

    def slow() -> dict:
        at_work.append(1)
        left.wait(60)
        return {}

    monkeypatch.setattr("app.routes.medmix.medmix_forms", slow)
    server = whole_server(store)
    with visitor(server, "ann") as ann:
        bob = visitor(server, "bob")
        bob.portal = ann.portal  # one loop, as a server has
        asking = threading.Thread(target=lambda: at_once(lambda i: ann.get("/api/medmix/forms"), 60))
        asking.start()
        try:
            while len(at_work) < guard.AT_ONCE:
                time.sleep(0.01)
            begun = time.monotonic()
            assert bob.get("/api/status").status_code == 200
            assert time.monotonic() - begun < 20, "seconds; ann's sixty have not ended"
            assert len(at_work) == guard.AT_ONCE
        finally:
            left.set()
            asking.join()
