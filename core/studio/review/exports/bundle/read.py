"""Reading a bundle: its rows with new ids, its audit trail as a foreign one, its files into a new study."""

from __future__ import annotations

import errno
import json
import re
import secrets
import shutil
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.studio.db import audit, leftovers
from core.studio.db.store import Store
from core.studio.ingest.studies import slug
from core.studio.review.exports.bundle import maps
from core.studio.review.exports.bundle.checks import (
    EVENTS,
    ROWS,
    SETTINGS,
    TABLES,
    WITH_STUDY,
    BadBundle,
    Ids,
    Limits,
    checked,
    manifest_of,
    parts_of,
    safe_name,
    unpack,
)
from core.studio.review.exports.bundle.write import NOT_OF_THE_RUN
from core.studio.review.people import list_readers

# A bundle's rows: read from a database file of a stranger, checked value by value, given new ids and stored.

_PLAIN = re.compile(r'CREATE TABLE "?\w+"? \(("\w+"(, "\w+")*)\)')  # no view, no virtual or computed column
_METHOD = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_UNFINISHED = ("new", "queued", "running")


def read_rows(file: Path, table: str) -> Iterator[dict]:
    """Yields rows of a plain table of a bundle's database; none if it has no such table. Raises BadBundle for views."""
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
    """Writes all tables inside the caller's transaction; returns {table: rows}.

    paths: of a bundle of format 1, path -> name. Raises BadBundle for a value that its column cannot hold, or a
    reference to a row that is not in the bundle.
    """
    counts = {}
    for table, about in TABLES.items():
        counts[table] = 0
        first = store.query(f'SELECT coalesce(max(rowid), 0) AS n FROM "{table}"')[0]["n"] if _numbered(table) else 0
        for found in read_rows(file, table):
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
    """Give a row its new ids, and what its table alone needs."""
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


# Audit trails that came with bundles: kept beside this home's own, never among it, and checked by their own chain.

_HASH = re.compile(r"[0-9a-f]{64}")
_NUMBERS = ("id", "case_id", "seconds")


def keep_events(store: Store, rows: Iterable[dict], bundle: str) -> int:
    """Store a bundle's events under the bundle's own name; returns how many. Their numbers are those of their home."""
    count = 0
    names = ", ".join(("bundle", *EVENTS))
    statement = f"INSERT INTO foreign_events ({names}) VALUES ({', '.join('?' * (1 + len(EVENTS)))})"
    for row in rows:
        values = [row.get(c) for c in EVENTS]
        for column, value in zip(EVENTS, values, strict=True):
            allowed = (int, float) if column in _NUMBERS else (str,)
            if value is not None and (isinstance(value, bool) or not isinstance(value, allowed)):
                raise BadBundle(f"an event's {column} holds what it cannot hold")
        if not (
            isinstance(row.get("id"), int) and all(_HASH.fullmatch(row.get(c) or "") for c in ("previous", "hash"))
        ):
            raise BadBundle("an event has no number or no seal")
        store.db.execute(statement, [bundle, *values])
        count += 1
    return count


def verify_foreign(store: Store) -> list[str]:
    """Lists problems in the audit trails of bundles: links of every event, seals of those whose content came along."""
    problems: list[str] = []
    last: dict[str, str] = {}
    for row in store.db.query("SELECT * FROM foreign_events ORDER BY bundle, id"):
        bundle = row.pop("bundle")
        if row["previous"] != last.get(bundle, audit.START):
            problems.append(f"{bundle}: event {row['id']} does not follow the event before it")
        if row["at"] is not None and audit.seal(row) != row["hash"]:
            problems.append(f"{bundle}: event {row['id']} was altered")
        last[bundle] = row["hash"]
    return problems


# A bundle in: unpacked and checked in a folder of its own, then stored in one transaction, then moved into place.

_DAMAGE = (
    zipfile.BadZipFile, KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeError, sqlite3.DatabaseError,
    EOFError, NotImplementedError, RuntimeError, OSError, OverflowError, struct.error, zlib.error,
)  # fmt: skip
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE)


def import_bundle(store: Store, source: Path, by: str, limits: Limits | None = None) -> dict:
    """Brings the study of a bundle into this home, all or nothing.

    Returns {"study", "rows": {table: n}, "readers": {name: name here}, "missing", "changed"}. missing: {"images": names
    of cases without an image, "maps": maps without files}; changed: names of cases whose image is not the one that was
    imported first. Raises BadBundle if the study is already here, or the file is damaged, too large, or holds what no
    bundle holds; the home is then as it was.
    """
    source = Path(source)
    staged = leftovers.begin(store.home.path, "bundle-")
    try:
        with zipfile.ZipFile(source) as bundle:
            manifest = manifest_of(bundle, limits or Limits())
            digests = unpack(source, bundle, manifest, staged, limits or Limits())
        return _store(store, staged, manifest, digests, by)
    except _DAMAGE as error:
        if isinstance(error, sqlite3.OperationalError) or getattr(error, "errno", None) in _MACHINE:
            raise  # a full disk is not the bundle's fault
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)  # without a path
        raise BadBundle(f"{source.name} is no study bundle, or it is damaged ({what[:200]})") from None
    finally:
        leftovers.discard(staged)


def _study_of(store: Store, name: str) -> str:
    try:
        study = slug(name)
    except ValueError:
        raise BadBundle("the bundle's study has no name") from None
    if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) or (store.home.files / study).exists():
        raise BadBundle(f"there is already a study {study!r} here")
    return study


def _store(store: Store, staged: Path, manifest: dict, digests: dict[str, str], by: str) -> dict:
    study = _study_of(store, manifest["study"])
    files = store.home.files / study
    accounts = {r["name"] for r in list_readers(store)}
    ids = Ids(study=study, was=manifest["study"], files=files, taken=accounts)
    moved: list[Path] = []
    mark = f"{study} {manifest['made'][:40]} {secrets.token_hex(4)}"
    try:
        with store.write():
            counts = store_rows(store, staged / ROWS, ids, _paths(manifest, staged))
            counts["events"] = keep_events(store, read_rows(staged / ROWS, "events"), mark)
            moves, lost_maps = maps.adopt(store, staged, ids)
            report = _report(store, study, digests, files)
            report["missing"]["maps"] = [*_listed(manifest, "maps"), *lost_maps]
            kept = {"rows": counts, "readers": ids.reader, "bundle": mark, "reviews": audit.seal_reviews(store, study)}
            audit.record(store, by, "import", study=study, after=kept)
            if (staged / "images").is_dir():
                leftovers.hold(staged / "images")  # it is moved before the study's row is there for others
                moves.append((staged / "images", files))
            moves += _runs(store, staged, ids)
            _move(moves, moved)
    except BaseException:
        for path in moved:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        raise
    finally:
        leftovers.let_go(staged / "images")
    return {"study": study, "rows": counts, "readers": ids.reader, **report}


def _listed(manifest: dict, kind: str) -> list[str]:
    """What the bundle itself says that it could not take along."""
    found = (manifest.get("missing") or {}).get(kind) or []
    return [name for name in found if isinstance(name, str)]


def _paths(manifest: dict, staged: Path) -> dict[str, str]:
    """Of a bundle of format 1: the path of each case's image in its first home, and its name inside the bundle."""
    if manifest["format"] > 1:
        return {}
    given, found = manifest["images"], {}
    for number, row in enumerate(read_rows(staged / ROWS, "cases")):
        path = row.get("path")
        if isinstance(path, str) and path not in found:
            name = given.get(path, f"images/none-{number:06d}/{safe_name(path)}")
            parts_of(name)
            found[path] = name
    return found


def _report(store: Store, study: str, digests: dict[str, str], files: Path) -> dict:
    """Cases without an image, and with another one than was imported first."""
    gone, changed = [], []
    for case in store.query("SELECT name, path, sha256 FROM cases WHERE study = ? ORDER BY id", [study]):
        digest = digests.get(f"images/{Path(case['path']).relative_to(files).as_posix()}")
        if digest is None:
            gone.append(case["name"])
        elif case["sha256"] and digest != case["sha256"]:
            changed.append(case["name"])
    return {"missing": {"images": gone}, "changed": changed}


def _runs(store: Store, staged: Path, ids: Ids) -> list[tuple[Path, Path]]:
    """Every run's own folder. Raises BadBundle for files of a run that the bundle does not list."""
    root = staged / "runs"
    there = sorted(root.iterdir()) if root.is_dir() else []
    unknown = [f.name for f in there if f.name not in ids.run]
    if unknown:
        raise BadBundle(f"the bundle holds files of a run that it does not list: {unknown[0][:80]!r}")
    for folder in there:
        for name in NOT_OF_THE_RUN:
            (folder / name).unlink(missing_ok=True)
    moves = [(folder, store.home.runs / ids.run[folder.name]) for folder in there]
    for new in set(ids.run.values()) - {target.name for _, target in moves}:
        (staged / "new" / new).mkdir(parents=True)
        moves.append((staged / "new" / new, store.home.runs / new))
    return moves


def _move(moves: list[tuple[Path, Path]], moved: list[Path]) -> None:
    """Into place, on the same disk. Nothing is overwritten: every target's name is new."""
    for source, target in moves:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise BadBundle(f"there is already a {target.name} here")
        source.rename(target)
        moved.append(target)
