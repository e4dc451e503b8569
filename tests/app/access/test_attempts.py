"""Waits between wrong passwords: growing, by address and account, the same for guesses sent at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.access.attempts import FORGOTTEN, FREE, FREE_ADDRESS, LONGEST, Attempts


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_the_wait_doubles_and_has_an_end(clock):
    attempts = Attempts(clock)
    assert [attempts.begin("a", "Ada") for _ in range(FREE)] == [0.0] * FREE
    waits = []
    for _ in range(12):
        waits.append(attempts.begin("a", "Ada"))
        clock.now += waits[-1]
        assert attempts.begin("a", "Ada") == 0.0, "once it has passed, one more try"
    assert waits == [min(LONGEST, 2.0**n) for n in range(12)]
    clock.now += FORGOTTEN + 1
    assert attempts.begin("a", "Ada") == 0.0 and attempts.begin("a", "Ada") == 0.0


def test_guesses_at_once_do_not_race(clock):
    attempts, start = Attempts(clock), threading.Barrier(40)

    def guess(_):
        start.wait()
        return attempts.begin("a", "Ada")

    with ThreadPoolExecutor(40) as threads:
        admitted = [wait for wait in threads.map(guess, range(40)) if wait == 0.0]
    assert len(admitted) == FREE


def test_a_stranger_does_not_lock_out_the_owner(clock):
    attempts = Attempts(clock)
    for _ in range(FREE):
        attempts.begin("stranger", "Ada")
    assert attempts.begin("stranger", "Ada") > 0
    assert attempts.begin("home", "Ada") == 0.0, "another address"
    assert attempts.begin("stranger", "Ada", browser="known") == 0.0, "the owner's own browser behind the same address"
    for _ in range(FREE - 1):
        attempts.begin("stranger", "Ada", browser="known")
    assert attempts.begin("stranger", "Ada", browser="known") > 0, "a stolen browser is held up by itself"
    assert attempts.begin("home", "Ada") == 0.0


def test_an_address_that_tries_many_accounts_waits_for_all(clock):
    attempts = Attempts(clock)
    assert [attempts.begin("a", f"reader {n}") for n in range(FREE_ADDRESS)] == [0.0] * FREE_ADDRESS
    assert attempts.begin("a", "another") > 0


def test_right_passwords_do_not_count(clock):
    attempts = Attempts(clock)
    for n in range(3 * FREE_ADDRESS):
        assert attempts.begin("clinic", f"reader {n}") == 0.0
        attempts.succeeded("clinic", f"reader {n}")
    for _ in range(FREE - 1):
        attempts.begin("clinic", "Ada")
    attempts.begin("clinic", "Ada")
    attempts.succeeded("clinic", "Ada")
    assert [attempts.begin("clinic", "Ada") for _ in range(FREE)] == [0.0] * FREE


def test_a_try_that_was_not_answered_does_not_count(clock):
    attempts = Attempts(clock)
    for _ in range(3 * FREE):
        assert attempts.begin("a", "Ada") == 0.0
        attempts.withdraw("a", "Ada")
