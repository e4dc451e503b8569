"""Helpers of the bench of faults: a small home, what came of a fault, and a process that is killed in its work."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.db import audit, opening
from core.studio.db.home import Home
from core.studio.db.store import Store, now
from core.studio.review import decisions
from core.studio.review.context import writing
from tests.benches import ROOT

CASES = 40


@dataclass
class Outcome:
    """What came of a fault.

    tries: how often the fault was made. lost: what had been answered as stored, and is not. leaked: what is there, or
    was shown, and must not be. seconds: the longest time until all was well again.
    """

    name: str
    tries: int = 0
    lost: int = 0
    leaked: int = 0
    seconds: float = 0.0

    def row(self) -> dict:
        return {**self.__dict__, "seconds": round(self.seconds, 3)}

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Counts a try, and the time of what the block does to recover."""
        started = time.monotonic()
        yield
        self.seconds = max(self.seconds, time.monotonic() - started)
        self.tries += 1


@dataclass
class Place:
    """Where a fault is made: a folder of its own, how often, and random numbers from a seed."""

    folder: Path
    tries: int
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def home(self, name: str = "home") -> Store:
        """Opens a home with a study of CASES test cases that have no files."""
        store = opening.open(Home.at(self.folder / name))
        if store.one("SELECT 1 FROM studies") is None:
            with store.write() as db:
                db.execute("INSERT INTO studies (id, name, created) VALUES ('s', 's', ?)", [now()])
                for i in range(CASES):
                    db.execute(
                        'INSERT INTO cases (study, name, path, split, label, width, height, "row", added) '
                        "VALUES ('s', ?, ?, 'test', 'unknown', 64, 64, ?, ?)",
                        [f"{i}.png", f"/nowhere/{i}.png", i, now()],
                    )
        return store


def decide(store: Store, number: int, reader: str = "ann") -> int:
    """Stores one decision, by a token of its own; returns the review's number."""
    with writing(store, reader, case_id=1 + number % CASES) as context:
        answer = decisions.decide(context, "abnormal", comment=f"{number}", token=f"t{number}")
    return int(answer["review"])


def missing(store: Store, answered: list[int]) -> int:
    """Counts those of these reviews that are not there, and the faults that the audit trail shows."""
    there = {row["id"] for row in store.query("SELECT id FROM reviews")}
    return len(set(answered) - there) + len(audit.verify(store)["problems"])


def killed(code: str, arguments: list[str], after: Callable[[int], bool], seconds: float | None = None) -> list[str]:
    """Runs Python code in a process, kills it `seconds` after `after(lines so far)` holds, and returns its lines."""
    line = [sys.executable, "-c", code, *arguments]
    child = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    lines: list[str] = []
    try:
        for text in child.stdout:
            lines.append(text)
            if after(len(lines)):
                if seconds:
                    time.sleep(seconds)
                break
    finally:
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.stdout.close()
        child.wait()
    return [text.strip() for text in lines if text.endswith("\n")]
