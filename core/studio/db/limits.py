"""All limits on what readers may store or do at once, with their error messages.

Limits are checked where they apply: rows are counted in the transaction that adds one (`demand` inside `Store.write`),
streams and connections under the lock that admits them. Limits on request sizes are in app/access/guard.py.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.studio.db import owners
from core.studio.db.store import Store

MB, GB = 2**20, 2**30


@dataclass(frozen=True)
class Limit:
    """A limit: the largest number or number of bytes, and the error message, in which {most} is the number."""

    most: int
    sentence: str


def _kept(most: int, what: str) -> Limit:
    return Limit(most, "You keep {most:,} " + what + ", and that is the most: delete some that you no longer need.")


LIMITS: dict[str, Limit] = {
    # of each reader who does not administer
    "run": _kept(200, "runs"),
    "map": _kept(200, "maps"),
    "projection": _kept(200, "projections"),
    "view": _kept(500, "views"),
    "preset": _kept(500, "presets"),
    "run bytes": Limit(50 * GB, "Your runs take more than 50 GB: delete some, or ask an administrator."),
    "upload": Limit(3, "At most {most} uploads of a reader are kept: the oldest make room."),
    "upload files": Limit(10_000, "At most {most:,} files and folders are accepted here."),
    "upload bytes": Limit(512 * MB, "This is too large: at most 512 MB are accepted here."),
    # of each reader
    "preset version": Limit(5_000, "You have saved {most:,} presets and versions, and that is the most."),
    "token": Limit(20, "A reader has {most} tokens at most: revoke one that is not used any more."),
    "sign-in": Limit(50, "A reader is signed in {most} times at most: the oldest session ends."),
    "draft": Limit(500, "You keep {most:,} unsaved drawings, and that is the most: save or discard some."),
    "draft bytes": Limit(64 * MB, "Your unsaved drawings take more than 64 MB: save or discard some."),
    "finding": Limit(64, "You have {most} findings on this case, and that is the most: remove some."),
    "review": Limit(500, "You have decided {most:,} times on this case, and that is the most."),
    "mask": Limit(500, "You have saved {most:,} masks of this case, and that is the most."),
    "turn": Limit(7, "Your earlier ones are still being computed: wait for their answers."),
    "stream": Limit(32, "This reader follows the studio in {most} windows already. Close one of them."),
    # of all together
    "search": Limit(3, "{most} searches for settings run or wait already: let one of them end first."),
    "fault log": Limit(1 * MB, "errors.log starts over at 1 MB; the previous one is kept."),
}


class TooMuch(ValueError):
    """Raised if a limit is exceeded or the disk is full; the message says what to do."""


def demand(name: str, held: int, adding: int = 1) -> None:
    """Raises TooMuch if `held` plus `adding`, a number of items or bytes, exceeds the limit of that name."""
    limit = LIMITS[name]
    if held + adding > limit.most:
        raise TooMuch(limit.sentence.format(most=limit.most))


def demand_rows(store: Store, name: str, table: str, where: str, values: list[object]) -> None:
    """Raises TooMuch if another row in `table` would exceed limit `name`. Call it in the transaction that adds it."""
    demand(name, store.first(f"SELECT count(*) AS n FROM {table} WHERE {where}", values)["n"])


def demand_owned(store: Store, kind: str, reader: str, adding: int = 1) -> None:
    """Raises TooMuch if a reader may not own `adding` more items. Call it in the transaction that adds them."""
    demand(kind, len(owners.owned(store, kind, reader)), adding)


SPARE = 1 * GB  # free disk space below which nothing can be started on the page


def demand_room(store: Store, kind: str, reader: str) -> None:
    """Raises TooMuch if less than SPARE bytes are free on disk, or for kind "run", if a reader's runs take too many."""
    if shutil.disk_usage(store.home.path).free < SPARE:
        raise TooMuch(f"The disk has less than {SPARE // GB} GB left: nothing is started until there is room.")
    if kind == "run":
        demand("run bytes", kept_bytes(store, reader), 0)


def kept_bytes(store: Store, reader: str) -> int:
    """Counts the bytes in the folders of a reader's runs, including those in the bin."""
    marks = owners.owned(store, "run", reader)
    rows = store.query("SELECT folder FROM runs WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(marks)])
    folders = [store.home.path / row["folder"] for row in rows]
    return sum(_size(file) for folder in folders for file in folder.rglob("*"))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # a training has just replaced it
        return 0
