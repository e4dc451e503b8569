"""Limits on sign-in attempts: each wrong password makes the next wait longer, for that address and account.

A stranger's guesses never lock out the account's owner: they count against the stranger's address, and a browser from
which the owner has signed in before has a separate count.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

FREE = 5  # wrong passwords for one address and account before the first wait
FREE_ADDRESS = 30  # for one address over all accounts: a whole clinic may share one
LONGEST = 900.0  # the longest wait in seconds; waits double up to it
FORGOTTEN = 3600.0  # seconds after which misses no longer count
MOST = 20_000  # entries kept; the oldest are dropped first


@dataclass
class _Misses:
    count: int = 0
    last: float = 0.0


class Attempts:
    """Wrong sign-in attempts by address, account and browser, and the waits that follow from them.

    Safe between threads: an attempt counts as a miss from its start, so guesses sent at once do not race.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._lock = threading.Lock()
        self._misses: OrderedDict[Hashable, _Misses] = OrderedDict()

    def begin(self, address: str, name: str, browser: str | None = None) -> float:
        """Starts an attempt; returns 0.0 if it may proceed, else the seconds to wait.

        An attempt counts as a miss until `succeeded` is called. browser: the token of a browser known to `name`
        (Sessions.known_browser).
        """
        with self._lock:
            now = self._clock()
            limits = self._limits(address, name, browser)
            wait = max(self._wait(key, free, now) for key, free in limits)
            if wait > 0:
                return wait
            for key, _ in limits:
                misses = self._misses.setdefault(key, _Misses())
                misses.count, misses.last = misses.count + 1, now
                self._misses.move_to_end(key)
            while len(self._misses) > MOST:
                self._misses.popitem(last=False)
            return 0.0

    def succeeded(self, address: str, name: str, browser: str | None = None) -> None:
        """Records a right password: forgets the account's misses, and this try no longer counts against the address."""
        with self._lock:
            for key, free in self._limits(address, name, browser):
                if free == FREE:
                    self._misses.pop(key, None)
                elif key in self._misses:
                    self._misses[key].count -= 1

    def withdraw(self, address: str, name: str, browser: str | None = None) -> None:
        """Withdraws an attempt that was not answered, so that it does not count."""
        with self._lock:
            for key, _ in self._limits(address, name, browser):
                if key in self._misses:
                    self._misses[key].count -= 1

    @staticmethod
    def _limits(address: str, name: str, browser: str | None) -> list[tuple[Hashable, int]]:
        if browser is not None:
            return [(("browser", browser), FREE)]
        return [(("account", address, name), FREE), (("address", address), FREE_ADDRESS)]

    def _wait(self, key: Hashable, free: int, now: float) -> float:
        misses = self._misses.get(key)
        if misses is None:
            return 0.0
        if now - misses.last > FORGOTTEN:
            del self._misses[key]
            return 0.0
        if misses.count < free:
            return 0.0
        delay = min(LONGEST, 2.0 ** min(misses.count - free, 20))
        return max(0.0, misses.last + delay - now)
