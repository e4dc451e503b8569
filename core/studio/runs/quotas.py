"""How much a reader who does not administer may keep: number and bytes of runs, number of maps, views and presets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from core.studio.db import owners
from core.studio.db.store import Store

GB = 2**30
MOST = {"run": 200, "map": 200, "projection": 200, "view": 500, "preset": 500}
BYTES = 50 * GB  # of the folders of a reader's runs
SPARE = 1 * GB  # of the disk, that nothing started on the page may eat into


class TooMuch(ValueError):
    """Error: a reader may keep no more, or the disk is full; the message says what to do."""


def kept_bytes(store: Store, reader: str) -> int:
    """Counts the bytes in the folders of a reader's runs, those in the bin as well."""
    marks = owners.owned(store, "run", reader)
    rows = store.query("SELECT folder FROM runs WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(marks)])
    folders = [store.home.path / row["folder"] for row in rows]
    return sum(_size(file) for folder in folders for file in folder.rglob("*"))


def demand(store: Store, kind: str, reader: str, adding: int = 1) -> None:
    """Raises TooMuch if a reader may not make `adding` more things of a kind."""
    if shutil.disk_usage(store.home.path).free < SPARE:
        raise TooMuch(f"The disk has less than {SPARE // GB} GB left: nothing is started until there is room.")
    owned = len(owners.owned(store, kind, reader))
    if owned + adding > MOST[kind]:
        raise TooMuch(f"You keep {owned} {kind}s, and {MOST[kind]} is the most: delete some that are done with.")
    if kind == "run" and kept_bytes(store, reader) > BYTES:
        raise TooMuch(f"Your runs take more than {BYTES // GB} GB: delete some, or ask an administrator.")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size if file.is_file() else 0
    except OSError:  # a training has just replaced it
        return 0
