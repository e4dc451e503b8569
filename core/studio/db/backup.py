"""Backups of the database: made while people work, checked by reading them back, rotated. `restore` puts one back.

A backup is NAME.sqlite with NAME.json beside it: its hash, the version of its schema, the events and the trail's last
hash. Runs' files and images are no part of it: `doctor` says what of them is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from core.engine import files
from core.studio.db import audit, migrations
from core.studio.db.home import BadHome, Home
from core.studio.db.store import Row, Store, now

KEPT = 14  # of each kind, the newest
REGULAR, BEFORE, ASIDE = "studio", "before-migration", "replaced"


class BadBackup(ValueError):
    """A backup that is damaged, of a newer version, or not there; the message says so."""


@dataclass(frozen=True)
class Backup:
    """What is known of a backup: its file's hash, what it holds, and when it was made."""

    file: str
    created: str
    bytes: int
    sha256: str
    version: int
    events: int
    head: str


def backup(home: Home, folder: Path | None = None, keep: int = KEPT, kind: str = REGULAR) -> Backup:
    """Copies the database to `folder` (default: the home's own), reads it back, and deletes the oldest of its kind.

    One is made at a time in a folder. Raises BadBackup, and leaves nothing, if the copy is not sound.
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
    """Deletes the backups that were begun before the one of that name. Raises BadBackup if that one is gone."""
    with files.locked(folder / "backup"):
        if not (folder / name).is_file():
            raise BadBackup(f"{name} is gone, so the backups before it stay")
        for old in folder.glob("*.sqlite*"):
            if _time_of(old.name) < _time_of(name):
                _delete(old)


def _time_of(name: str) -> str:
    """The time in a backup's name; the empty text for a file with another name."""
    found = re.search(r"\d{8}T\d{9}Z", name)
    return found.group() if found else ""


def _delete(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_suffix(".json").unlink(missing_ok=True)


def backups(folder: Path) -> list[Backup]:
    """Lists the backups in a folder that are described, newest first."""
    listed = []
    for note in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            listed.append(Backup(**json.loads(note.read_text())))
    return sorted(listed, key=lambda b: (b.created, b.file), reverse=True)


def check(file: Path) -> Backup:
    """Reads a whole backup. Raises BadBackup if it is damaged, or of a version that this one does not read."""
    if not file.is_file():
        raise BadBackup(f"there is no backup {file}")
    described = _described(file, file.name)
    note = file.with_suffix(".json")
    if note.exists():
        try:
            said = json.loads(note.read_text())["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            raise BadBackup(f"{note.name}, which describes the backup, cannot be read") from None
        if said != described.sha256:
            raise BadBackup(f"{file.name} is damaged: it is not what was written")
    return described


def copy(source: Path, target: Path, once_alone: Callable[[], object] | None = None) -> None:
    """Copies a database by SQLite's own means.

    The copy is one state of the source, whoever writes to it; the target's readers see all or nothing.

    Args:
        source: the database.
        target: the file, new or a database that others have open.
        once_alone: called when nobody else can write to the target any more, before anything in it has changed for its
            readers. If it raises, the target stays as it was.
    """
    waiting = [] if once_alone is None else [once_alone]

    def step(status: int, remaining: int, total: int) -> None:
        if waiting and status == 0:  # the first page is written, so the lock is held
            waiting.pop()()

    reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
    with contextlib.closing(reading), contextlib.closing(sqlite3.connect(target, timeout=30)) as written:
        reading.backup(written, pages=1 if waiting else -1, progress=step)
        if target.suffix == ".partial":
            written.execute("PRAGMA journal_mode=DELETE")  # one file, which can be carried elsewhere
    with open(target, "rb+") as content:
        os.fsync(content.fileno())


def _described(file: Path, name: str, strict: bool = True) -> Backup:
    """What a copy holds. Raises BadBackup unless it is a sound database of this studio; strict: its trail unbroken."""
    try:
        with _reading(file) as store:
            wrong = [r["integrity_check"] for r in store.query("PRAGMA integrity_check")]
            if wrong != ["ok"]:
                raise BadBackup(f"{name} is damaged: {wrong[0]}")
            version = migrations.version_of(store.db.conn)
            if not version:
                raise BadBackup(f"{name} is no database of this studio")
            trail: Row = audit.verify(store)
            if strict and trail.get("problems"):
                raise BadBackup(f"the audit trail in {name} is broken: {trail['problems'][0]}")
    except BadHome as error:
        raise BadBackup(f"{name}: {error}") from None
    except sqlite3.OperationalError:
        raise  # the disk is full, or somebody has locked the file: that says nothing of it
    except sqlite3.DatabaseError as error:
        raise BadBackup(f"{name} is no database of this studio, or is damaged: {error}") from None
    return Backup(name, now(), file.stat().st_size, files.file_sha256(file), version, trail["events"], trail["head"])


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[Store]:
    store = Store.reading(file)
    try:
        yield store
    finally:
        store.close()


def free(folder: Path, kind: str) -> Path:
    """Returns a path that no backup has yet; names sort as the times at which they were given."""
    while True:
        target = folder / f"{kind}-{re.sub('[^0-9TZ]', '', now())}.sqlite"
        if not target.exists():
            return target
        time.sleep(0.001)  # two within one millisecond
