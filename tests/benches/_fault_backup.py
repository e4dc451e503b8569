"""Faults of backups: made while others write, damaged or newer ones restored, a restore that is killed."""

from __future__ import annotations

import shutil
import threading

from core.studio.db import backup, opening
from tests.benches._fault import Outcome, Place, decide, killed, missing

RESTORING = """
import sys
from pathlib import Path
from core.studio.db import backup
from core.studio.db.home import Home
print("ready", flush=True)
backup.restore(Home.at(sys.argv[1]), Path(sys.argv[2]))
"""


def backup_while_deciding(place: Place) -> Outcome:
    """Checks that a backup holds every decision answered before it began, and is whole when restored."""
    outcome = Outcome("backup while deciding")
    store = place.home()
    answered: list[int] = []
    stop, begun = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            answered.append(decide(store, len(answered)))
            begun.set()
        store.close()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(30)
    try:
        for number in range(place.tries):
            before = list(answered)
            copy_made = backup.backup(store.home)
            other = place.home(f"other-{number}")
            with outcome.timed():
                backup.restore(other.home, store.home.backups / copy_made.file)
                outcome.lost += missing(other, before)
            other.close()
            shutil.rmtree(other.home.path)
    finally:
        stop.set()
        writer.join()
    store.close()
    return outcome


def damaged_backup(place: Place) -> Outcome:
    """Checks that a backup that is changed or cut at a random byte is refused, and nothing changes."""
    outcome = Outcome("damaged backup restored")
    store = place.home()
    answered = [decide(store, number) for number in range(5)]
    file = store.home.backups / backup.backup(store.home).file
    answered.append(decide(store, 5))
    whole = file.read_bytes()
    for _ in range(place.tries):
        at = place.draw.randrange(len(whole))
        file.write_bytes(whole[:at] + (bytes([whole[at] ^ 1]) + whole[at + 1 :] if at % 2 else b""))
        with outcome.timed():
            try:
                backup.restore(store.home, file)
                outcome.leaked += 1
            except backup.BadBackup:
                pass
        outcome.lost += missing(store, answered)
    store.close()
    return outcome


def killed_while_restoring(place: Place) -> Outcome:
    """Kills a restore at a random moment.

    The database is the one before or the one restored, and what was there is kept.
    """
    outcome = Outcome("killed while restoring")
    for number in range(place.tries):
        store = place.home(f"home-{number}")
        first = [decide(store, n) for n in range(20)]
        file = store.home.backups / backup.backup(store.home).file
        later = [decide(store, n) for n in range(20, 30)]
        store.close()
        killed(RESTORING, [str(store.home.path), str(file)], lambda n: n == 1, place.draw.uniform(0.0, 0.25))
        with outcome.timed():
            fresh = opening.open(store.home)
            outcome.lost += missing(fresh, first)
            aside = [b for b in backup.backups(store.home.backups) if b.file.startswith(backup.ASIDE)]
            if missing(fresh, later) and not any(b.events >= 30 for b in aside):
                outcome.lost += 1
            fresh.close()
        shutil.rmtree(store.home.path)
    return outcome


FAULTS = (backup_while_deciding, damaged_backup, killed_while_restoring)
