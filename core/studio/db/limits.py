"""Limits on how much readers may store and on how many requests they may make at once, with the error messages.

Stored rows are counted in the transaction that adds a row (`demand` inside `Store.write`), and open streams and
connections are counted under a lock. Limits on request sizes are in app/access/guard.py.
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
    """Maximum number, or maximum size in bytes, and the error message, in which {most} stands for the maximum."""

    most: int
    sentence: str


def _kept(most: int, what: str) -> Limit:
    return Limit(most, "You have reached the limit of {most:,} " + what + ": delete some that you no longer need.")


LIMITS: dict[str, Limit] = {
    # for each reader who is not an administrator
    "run": _kept(200, "runs"),
    "map": _kept(200, "maps"),
    "projection": _kept(200, "projections"),
    "view": _kept(500, "views"),
    "preset": _kept(500, "presets"),
    "run bytes": Limit(50 * GB, "Your runs take more than 50 GB: delete some, or ask an administrator."),
    "upload": Limit(3, "At most {most} uploads of a reader are kept; older uploads are removed."),
    "upload files": Limit(10_000, "At most {most:,} files and folders can be uploaded: upload fewer."),
    "upload bytes": Limit(512 * MB, "This upload is too large: at most 512 MB are accepted."),
    # for each reader
    "preset version": Limit(5_000, "You have reached the limit of {most:,} saved presets and versions."),
    "token": Limit(20, "A reader can have at most {most} tokens: revoke one that is no longer used."),
    "sign-in": Limit(50, "A reader can be signed in at most {most} times: the oldest session ends."),
    "draft": Limit(500, "You have reached the limit of {most:,} unsaved drawings: save or discard some."),
    "draft bytes": Limit(64 * MB, "Your unsaved drawings take more than 64 MB: save or discard some."),
    "finding": Limit(64, "You have reached the limit of {most} findings on this case: remove some."),
    "review": Limit(500, "You have reached the limit of {most:,} decisions on this case."),
    "mask": Limit(500, "You have reached the limit of {most:,} saved masks on this case."),
    "turn": Limit(7, "Your earlier requests are still being computed: wait for their results."),
    "stream": Limit(32, "This reader already has the studio open in {most} windows: close one of them."),
    # for all readers together
    "search": Limit(3, "{most} searches for settings are already running or waiting: wait until one has ended."),
    "fault log": Limit(1 * MB, "errors.log is started anew at 1 MB; the previous log is kept."),
}


class TooMuch(ValueError):
    """Raised if a limit is exceeded or the disk is almost full; the message says what to do."""


def demand(name: str, held: int, adding: int = 1) -> None:
    """Raises TooMuch if adding `adding` items or bytes to the present `held` would exceed the limit `name`."""
    limit = LIMITS[name]
    if held + adding > limit.most:
        raise TooMuch(limit.sentence.format(most=limit.most))


def demand_rows(store: Store, name: str, table: str, where: str, values: list[object]) -> None:
    """Raises TooMuch if one more row matching `where` exceeds the limit. Call this in the transaction that adds it."""
    demand(name, store.first(f"SELECT count(*) AS n FROM {table} WHERE {where}", values)["n"])


def demand_owned(store: Store, kind: str, reader: str, adding: int = 1) -> None:
    """Raises TooMuch if a reader may not own `adding` more items. Call it in the transaction that adds them."""
    demand(kind, len(owners.owned(store, kind, reader)), adding)


SPARE = 1 * GB  # free disk space below which nothing can be started on the page


def demand_room(store: Store, kind: str, reader: str) -> None:
    """Raises TooMuch if the disk has fewer than SPARE free bytes or, for kind "run", a reader's runs are too large."""
    if shutil.disk_usage(store.home.path).free < SPARE:
        raise TooMuch(f"The disk has less than {SPARE // GB} GB left: free some space, then try again.")
    if kind == "run":
        demand("run bytes", kept_bytes(store, reader), 0)


def kept_bytes(store: Store, reader: str) -> int:
    """Returns the total size in bytes of a reader's runs, including runs in the bin."""
    marks = owners.owned(store, "run", reader)
    rows = store.query("SELECT folder FROM runs WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(marks)])
    folders = [store.home.path / row["folder"] for row in rows]
    return sum(_size(file) for folder in folders for file in folder.rglob("*"))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # a training run has just replaced the file
        return 0
