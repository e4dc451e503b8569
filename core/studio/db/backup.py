"""Makes, verifies, rotates and restores backups of the database, even while it is in use; the studio makes one daily.

A backup consists of NAME.sqlite and NAME.json, which states the hash of the backup, its schema version, its number of
audit events and the hash of the last event. Images and files of runs are not backed up; `doctor` lists missing files.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from core.engine import files
from core.studio.db import audit, migrations
from core.studio.db.home import BadHome, Home
from core.studio.db.store import Row, Store, now

KEPT = 14  # number of backups of each kind that are kept
REGULAR, BEFORE, ASIDE = "studio", "before-migration", "replaced"
DAY = 86400.0  # seconds


class BadBackup(ValueError):
    """Raised if a backup is missing, damaged or made by a newer version; the message states the problem."""


@dataclass(frozen=True)
class Backup:
    """Description of a backup: its schema `version`, number of audit `events`, and hash of the last event (`head`)."""

    file: str
    created: str
    bytes: int
    sha256: str
    version: int
    events: int
    head: str


def backup(home: Home, folder: Path | None = None, keep: int = KEPT, kind: str = REGULAR) -> Backup:
    """Copies the database to `folder` (default: home.backups), verifies the copy, and deletes old backups of its kind.

    The newest `keep` are kept. Concurrent calls take turns. Raises BadBackup, and removes the copy, if it is invalid.
    """
    folder = folder or home.backups
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / "backup") as work:
        partial, target = work / "copy" / "database.partial", free(folder, kind)
        partial.parent.mkdir()
        try:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o600))
            copy(home.db, partial)
            copy_made = _described(partial, target.name, strict=kind == REGULAR)
            partial.replace(target)
        finally:
            shutil.rmtree(partial.parent, ignore_errors=True)
        files.write_bytes(target.with_suffix(".json"), json.dumps(asdict(copy_made), indent=1).encode())
        for old in sorted(folder.glob(f"{kind}-*.sqlite"))[: -max(keep, 1)]:
            _delete(old)
    return copy_made


def delete_before(folder: Path, name: str) -> None:
    """Deletes the backups in `folder` that are older than the backup `name`, and those without a time in their names.

    Raises BadBackup if the backup `name` is missing.
    """
    with files.locked(folder / "backup"):
        if not (folder / name).is_file():
            raise BadBackup(f"the backup {name} is missing, so older backups are not deleted")
        for old in folder.glob("*.sqlite*"):
            if _time_of(old.name) < _time_of(name):
                _delete(old)


def _time_of(name: str) -> str:
    match = re.search(r"\d{8}T\d{9}Z", name)
    return match.group() if match else ""


def _delete(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_suffix(".json").unlink(missing_ok=True)


def backups(folder: Path) -> list[Backup]:
    """Returns the backups in a folder whose description (NAME.json) can be read, newest first."""
    listed = []
    for note in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            listed.append(Backup(**json.loads(note.read_text())))
    return sorted(listed, key=lambda b: (b.created, b.file), reverse=True)


def check(file: Path) -> Backup:
    """Verifies a backup and returns its description. Raises BadBackup if it is missing, damaged or too new to read."""
    if not file.is_file():
        raise BadBackup(f"the backup {file} does not exist")
    described = _described(file, file.name)
    note = file.with_suffix(".json")
    if note.exists():
        try:
            expected = json.loads(note.read_text())["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            raise BadBackup(f"the description of the backup, {note.name}, cannot be read") from None
        if expected != described.sha256:
            raise BadBackup(f"{file.name} is damaged: its hash differs from the one recorded in {note.name}")
    return described


def copy(source: Path, target: Path, once_alone: Callable[[], object] | None = None) -> None:
    """Copies a database with SQLite's backup API. The copy is consistent even if other processes use either database.

    Args:
        source: Path of the database.
        target: Path of a new file, or of a database that other processes may have open; they see either the old or the
            new content.
        once_alone: Function that is called when the target is locked against other writers, before any change is
            visible. If it raises an error, the target does not change.
    """
    waiting = [] if once_alone is None else [once_alone]

    def step(status: int, remaining: int, total: int) -> None:
        if waiting and status == 0:  # the first page is written, so the lock is held
            waiting.pop()()

    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
    with contextlib.closing(reading), contextlib.closing(sqlite3.connect(target, timeout=30)) as written:
        reading.backup(written, pages=1 if waiting else -1, progress=step)
        if target.suffix == ".partial":
            written.execute("PRAGMA journal_mode=DELETE")  # makes the copy a single file, which can be moved
    with open(target, "rb+") as content:
        os.fsync(content.fileno())


def _described(file: Path, name: str, strict: bool = True) -> Backup:
    """Describes a copy. Raises BadBackup if the database is invalid or, if `strict`, its audit trail is broken."""
    try:
        with _reading(file) as store:
            wrong = [r["integrity_check"] for r in store.query("PRAGMA integrity_check")]
            if wrong != ["ok"]:
                raise BadBackup(f"{name} is damaged: {wrong[0]}")
            version = migrations.version_of(store.db.conn)
            if not version:
                raise BadBackup(f"{name} is not a database of this studio")
            trail: Row = audit.verify(store)
            if strict and trail.get("problems"):
                raise BadBackup(f"the audit trail in {name} is broken: {trail['problems'][0]}")
    except BadHome as error:
        raise BadBackup(f"{name}: {error}") from None
    except sqlite3.OperationalError:
        raise  # a full disk or a locked file does not mean that the backup is damaged
    except sqlite3.DatabaseError as error:
        raise BadBackup(f"{name} is not a database of this studio, or is damaged: {error}") from None
    return Backup(name, now(), file.stat().st_size, files.file_sha256(file), version, trail["events"], trail["head"])


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[Store]:
    store = Store.reading(file)
    try:
        yield store
    finally:
        store.close()


def free(folder: Path, kind: str) -> Path:
    """Returns an unused path for a new backup. File names consist of kind and time, so that they sort by time."""
    while True:
        target = folder / f"{kind}-{re.sub('[^0-9TZ]', '', now())}.sqlite"
        if not target.exists():
            return target
        time.sleep(0.001)  # another backup was made in the same millisecond


def restore(home: Home, file: Path, by: str = "command line") -> Path | None:
    """Replaces the database with a backup; returns the path of a copy of the previous database, or None without one.

    Processes that have the database open continue with the restored one. No process can write between the copy and the
    restoration, so the copy contains every change committed before. Raises BadBackup, and changes nothing, if the
    backup is invalid.
    """
    described = check(file)
    aside: Path | None = None

    def keep() -> None:
        nonlocal aside
        aside = home.backups / backup(home, kind=ASIDE).file

    if not (home.db.exists() and home.db.stat().st_size):
        copy(file, home.db)
    else:
        try:
            copy(file, home.db, once_alone=keep)
        except sqlite3.OperationalError:
            raise
        except (BadBackup, sqlite3.DatabaseError):
            aside = _moved_aside(home)
            copy(file, home.db)
    store = Store(home)
    try:
        migrations.migrate(store.db.conn, before=lambda: backup(home, kind=BEFORE))
        with store.write():
            if aside is not None:
                _carry_over(store, aside)
            after = {"file": described.file, "events": described.events, "head": described.head}
            audit.record(store, by, "restore", before={"kept": aside and aside.name}, after=after)
    finally:
        store.close()
    return aside


def _carry_over(store: Store, aside: Path) -> None:
    """Copies state that must survive a restoration: used ids and the list of erased images."""
    tables: dict[str, list[Row]] = {"sqlite_sequence": [], "erased": [], "settings": []}
    try:
        before = Store.reading(aside)
        try:
            for table in tables:
                tables[table] = before.query(f"SELECT * FROM {table}")
        finally:
            before.close()
    except sqlite3.DatabaseError:  # the previous database was unreadable
        return
    for row in tables["sqlite_sequence"]:
        numbers = [row["seq"], row["name"]]
        if not store.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", numbers).rowcount:
            store.execute("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", numbers)
    if tables["erased"]:
        key = next(row for row in tables["settings"] if row["key"] == "erased key")
        store.execute("INSERT OR REPLACE INTO settings (key, value) VALUES (:key, :value)", key)
        store.db.conn.executemany("INSERT OR IGNORE INTO erased (digest) VALUES (:digest)", tables["erased"])


def _moved_aside(home: Home) -> Path:
    """Moves the files of an unreadable database to the backups; returns the new path of the database."""
    home.backups.mkdir(parents=True, exist_ok=True)
    aside = free(home.backups, ASIDE)
    for suffix in ("-wal", "-shm", ""):
        file = home.db.with_name(home.db.name + suffix)
        if file.exists():
            file.replace(aside.with_name(aside.name + suffix))
    return aside


class DailyBackup:
    """Context manager with a thread that makes a backup whenever the newest backup is `every` seconds old.

    The thread calls `also` after each backup.
    """

    def __init__(self, home: Home, every: float = DAY, also: Callable[[], object] = lambda: None):
        self.home, self.every, self.also = home, every, also
        self.made = threading.Event()  # set after each backup
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backup", daemon=True)

    def _due(self) -> float:
        times = [f.stat().st_mtime for f in self.home.backups.glob(f"{REGULAR}-*.sqlite")]
        return max(0.0, max(times, default=0.0) + self.every - time.time())

    def _run(self) -> None:
        while not self._end.wait(min(self._due(), 3600.0)):
            if self._due() > 0:
                continue
            try:
                backup(self.home)
                self.also()
                self.made.set()
            except Exception as error:  # the studio continues; the log and `doctor` report the error
                logging.getLogger(__name__).warning("no backup could be made: %s", error)
                self._end.wait(min(self.every, 3600.0))

    def __enter__(self) -> DailyBackup:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(5)
