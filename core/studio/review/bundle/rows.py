"""A bundle's rows: read from a database file of a stranger, checked value by value, given new ids and stored."""

from __future__ import annotations

import re
import secrets
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from core.studio.db.store import Store
from core.studio.review.bundle.staging import BadBundle
from core.studio.review.bundle.tables import SETTINGS, TABLES, WITH_STUDY
from core.studio.review.bundle.values import Ids, checked

_PLAIN = re.compile(r'CREATE TABLE "?\w+"? \(("\w+"(, "\w+")*)\)')  # no view, no virtual or computed column
_METHOD = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_UNFINISHED = ("new", "queued", "running")


def read(file: Path, table: str) -> Iterator[dict]:
    """Rows of a plain table of a bundle's database; none if it has no such table. Raises BadBundle for a view."""
    source = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        source.row_factory = sqlite3.Row
        source.execute("PRAGMA trusted_schema = OFF")
        source.execute("PRAGMA cell_size_check = ON")
        found = source.execute("SELECT type, sql FROM sqlite_master WHERE lower(name) = ?", [table]).fetchone()
        if found is None:
            return
        if found["type"] != "table" or not _PLAIN.fullmatch(found["sql"] or ""):
            raise BadBundle(f"the bundle's {table} is no plain table")
        columns = {d[1] for d in source.execute(f'PRAGMA table_info("{table}")')}
        known = [c for c in (*TABLES[table].columns, "id") if c in columns] if table in TABLES else sorted(columns)
        listed = ", ".join(f'"{c}"' for c in dict.fromkeys(known))
        order = "parent IS NOT NULL, created" if table == "runs" else "id" if "id" in columns else "rowid"
        for row in source.execute(f'SELECT {listed} FROM "{table}" ORDER BY {order}'):
            yield dict(row)
    finally:
        source.close()


def store_rows(store: Store, file: Path, ids: Ids, paths: dict[str, str]) -> dict[str, int]:
    """Write all tables inside the caller's transaction; {table: rows}. paths: of a bundle of format 1, path -> name.

    Raises BadBundle for a value that its column cannot hold, or a reference to a row that is not in the bundle.
    """
    counts = {}
    for table, about in TABLES.items():
        counts[table] = 0
        first = store.query(f'SELECT coalesce(max(rowid), 0) AS n FROM "{table}"')[0]["n"] if _numbered(table) else 0
        for found in read(file, table):
            if table == "cases":
                found["path"] = paths.get(found.get("path") or "", found.get("path"))
            row = {c: checked(table, c, kind, found[c], ids) for c, kind in about.columns.items() if c in found}
            if table in WITH_STUDY:
                row["study"] = ids.study
            _finish(table, row, found, ids, first + counts[table] + 1)
            if table == "settings" and row["key"] is None:
                continue
            names = ", ".join(f'"{c}"' for c in row)
            marks = ", ".join("?" * len(row))
            store.db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(row.values()))
            counts[table] += 1
        if table == "studies" and counts[table] != 1:
            raise BadBundle("a bundle holds one study")
    return counts


def _numbered(table: str) -> bool:
    return TABLES[table].columns.get("id") == "id" and table != "runs"


def _finish(table: str, row: dict, found: dict, ids: Ids, number: int) -> None:
    """New ids, and what one table alone needs."""
    if _numbered(table):
        row["id"] = number
    if table == "studies":
        row |= {"id": ids.study, "folder": None}
    elif table == "cases":
        ids.case[found["id"]] = number
        ids.sizes[number] = (row.get("width"), row.get("height"))
    elif table == "reviews":
        ids.review[found["id"]] = number
    elif table == "runs":
        if not _METHOD.fullmatch(row["method"]) or not isinstance(found["id"], str):
            raise BadBundle(f"the bundle has a run of an unknown kind: {row['method'][:40]!r}")
        row["id"] = ids.run[found["id"]] = f"{row['method']}-{secrets.token_hex(4)}"
        row["folder"] = f"runs/{row['id']}"
        if row["status"] in _UNFINISHED:
            row["status"] = "interrupted"
    elif table == "lesion_masks":
        if row["png"][:8] != b"\x89PNG\r\n\x1a\n" or _png_size(row["png"]) != ids.sizes[row["case_id"]]:
            raise BadBundle("a lesion mask in the bundle is not of its image's size")
    elif table == "readings" and row.get("map") is not None:
        _check_map(row)
    elif table == "settings":
        name, _, study = row["key"].rpartition(":")
        row["key"] = f"{name}:{ids.study}" if study == ids.was and name in SETTINGS else None
    elif table == "cluster_maps":
        row["key"] = ids.map[found["key"]] = secrets.token_hex(10)


def _png_size(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def _check_map(row: dict) -> None:
    """A heat map is 16 bits for each of its h x w values, and inflates to no more than that."""
    height, width = row.get("map_h"), row.get("map_w")
    if not (height and width and 0 < height <= 8192 and 0 < width <= 8192):
        raise BadBundle("a heat map in the bundle has no size")
    try:
        inflated = zlib.decompressobj().decompress(row["map"], 2 * height * width + 1)
    except zlib.error:
        inflated = b""
    if len(inflated) != 2 * height * width:
        raise BadBundle("a heat map in the bundle is not of the size that it says")
