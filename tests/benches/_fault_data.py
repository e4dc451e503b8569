"""Faults while decisions are written: a kill, a power cut, a disk that is full, read-only or locked."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from pathlib import Path

from core.studio.db import audit, opening
from core.studio.db.home import Home
from core.studio.db.store import Store
from tests.benches._fault import Outcome, Place, decide, killed, missing

DECIDING = """
import sys
from tests.benches._fault import decide
from core.studio.db.home import Home
from core.studio.db import opening
from core.studio.db.store import Store
store = opening.open(Home(__import__("pathlib").Path(sys.argv[1])))
start = store.first("SELECT count(*) AS n FROM reviews")["n"]
for number in range(start, start + 100_000):
    print(decide(store, number), flush=True)
"""


def killed_while_deciding(place: Place) -> Outcome:
    """Kills a process at a random decision: all that were answered are there, and the trail is whole."""
    outcome = Outcome("killed while deciding")
    store = place.home()
    for _ in range(place.tries):
        stop = place.draw.randint(1, 60)
        answered = [int(text) for text in killed(DECIDING, [str(store.home.path)], lambda n, stop=stop: n >= stop)]
        with outcome.timed():
            fresh = opening.open(store.home)
            outcome.lost += missing(fresh, answered)
            fresh.close()
    store.close()
    return outcome


def power_cut_while_deciding(place: Place) -> Outcome:
    """Cuts the power at every page that was written, and in the middle of every page.

    Writes are recorded, then replayed up to there, with and without junk.
    """
    outcome = Outcome("power cut while deciding")
    store = place.home()
    store.db.execute("PRAGMA wal_autocheckpoint = 0")
    store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wal, base = Path(f"{store.home.db}-wal"), store.home.db.read_bytes()
    written: list[tuple[int, int]] = []  # length of the log when a decision was answered, and the decision
    for number in range(2 * place.tries):
        review = decide(store, number)
        written.append((wal.stat().st_size, review))
    log = wal.read_bytes()
    store.close()
    page = int.from_bytes(base[16:18], "big") + 24
    for cut in sorted({*range(32, len(log) + 1, page), *range(32 + page // 2, len(log), page)}):
        home = Home(place.folder / "cut")
        shutil.rmtree(home.path, ignore_errors=True)
        home.path.mkdir()
        home.db.write_bytes(base)
        junk = place.draw.randbytes(page) if cut % 2 else b""
        Path(f"{home.db}-wal").write_bytes(log[:cut] + junk)
        with outcome.timed():
            fresh = opening.open(home)
            outcome.lost += missing(fresh, [review for length, review in written if length <= cut])
            outcome.leaked += fresh.first("PRAGMA integrity_check")["integrity_check"] != "ok"
            fresh.close()
    return outcome


def _refused(outcome: Outcome, store: Store, number: int) -> None:
    """Checks that what was refused has left nothing, and is stored once when it is sent again."""
    events = audit.verify(store)["events"]
    outcome.leaked += store.one("SELECT 1 FROM reviews WHERE comment = ?", [str(number)]) is not None
    with outcome.timed():
        again = [decide(store, number), decide(store, number)]
    outcome.lost += missing(store, again) + (audit.verify(store)["events"] != events + 1)


def disk_full_while_deciding(place: Place) -> Outcome:
    """Lets SQLite take no further page: the decision is refused, and stored once there is room."""
    outcome = Outcome("disk full while deciding")
    store, number, answered = place.home(), 0, list[int]()
    while outcome.tries < place.tries:
        pages = store.first("PRAGMA page_count")["page_count"]
        store.db.execute(f"PRAGMA max_page_count = {pages}")
        try:
            while True:
                answered.append(decide(store, number))
                number += 1
        except sqlite3.OperationalError as error:
            outcome.leaked += "full" not in str(error)
        store.db.execute("PRAGMA max_page_count = 1000000")
        outcome.lost += missing(store, answered)
        _refused(outcome, store, number)
        number += 1
    store.close()
    return outcome


def read_only_while_deciding(place: Place) -> Outcome:
    """Makes the database refuse every write: so does the studio, in a sentence, and nothing is half there."""
    outcome = Outcome("read-only disk while deciding")
    store = place.home()
    for number in range(place.tries):
        store.db.execute("PRAGMA query_only = ON")
        try:
            decide(store, number)
            outcome.leaked += 1
        except sqlite3.OperationalError:
            pass
        store.db.execute("PRAGMA query_only = OFF")
        _refused(outcome, store, number)
    store.close()
    return outcome


def locked_while_deciding(place: Place) -> Outcome:
    """Holds the write lock on another connection for a while: the decision waits, and is stored."""
    outcome = Outcome("database locked while deciding")
    store = place.home()
    for number in range(place.tries):
        held, ended = threading.Event(), threading.Event()

        def hold(held=held, ended=ended) -> None:
            other = sqlite3.connect(store.home.db, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            held.set()
            time.sleep(0.2)
            other.execute("ROLLBACK")
            other.close()
            ended.set()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(30)
        with outcome.timed():
            review = decide(store, number)
        outcome.leaked += not ended.is_set()  # it was stored while the lock was held
        outcome.lost += missing(store, [review])
        holder.join()
    store.close()
    return outcome


FAULTS = (
    killed_while_deciding,
    power_cut_while_deciding,
    disk_full_while_deciding,
    read_only_while_deciding,
    locked_while_deciding,
)
