"""Imports a bundle as a new study. Rows get new ids, and the bundle's audit trail is kept separate from this home's."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from core.engine.registry import DETECTORS
from core.studio.bundle import maps
from core.studio.bundle.contents import SETTINGS, Ids, Table, stored, tables
from core.studio.bundle.pack import EVENTS, NOT_OF_THE_RUN, ROWS, Limits, Manifest, manifest_of, quoted, unpack
from core.studio.db import audit, leftovers
from core.studio.db.foreign import Count, Number, Record, Refused, Sha256, Text, read, refusing
from core.studio.db.store import Row, Store
from core.studio.ingest import erased
from core.studio.ingest.studies import slug
from core.studio.review.people import list_readers
from core.studio.runs import foreign_runs, marks

# The rows of a bundle are read from an untrusted database file, checked value by value, given new ids and stored.
_PLAIN = re.compile(r'CREATE TABLE "?\w+"? \(("\w+"(, "\w+")*)\)')  # excludes views, virtual and computed columns
_METHOD = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
_UNFINISHED = ("new", "queued", "running")


def read_rows(file: Path, table: str, columns: Iterable[str]) -> Iterator[Row]:
    """Yields the rows of a table in a bundle, if the table exists. Raises Refused if it is a view or is damaged."""
    source = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        source.row_factory = sqlite3.Row
        source.execute("PRAGMA trusted_schema = OFF")
        source.execute("PRAGMA cell_size_check = ON")
        declared = source.execute("SELECT type, sql FROM sqlite_master WHERE lower(name) = ?", [table]).fetchone()
        if declared is None:
            return
        if declared["type"] != "table" or not _PLAIN.fullmatch(declared["sql"] or ""):
            raise Refused(f"the bundle's {table} is not a plain table")
        existing = {d[1] for d in source.execute(f'PRAGMA table_info("{table}")')}
        listed = [column for column in columns if column in existing]
        if not listed:
            raise Refused(f"the bundle's {table} has none of the required columns")
        order = "parent IS NOT NULL, created" if table == "runs" else "id" if "id" in listed else "rowid"
        for row in source.execute(f'SELECT {quoted(listed)} FROM "{table}" ORDER BY {order}'):
            yield dict(row)
    except sqlite3.Error as error:
        raise Refused(f"the rows of the bundle are damaged ({error})") from None
    finally:
        source.close()


def store_rows(store: Store, file: Path, ids: Ids) -> dict[str, int]:
    """Inserts a bundle's rows into this home's tables, in the caller's transaction; returns {table: number of rows}.

    Raises Refused if a value is invalid for its column or refers to a row that is not in the bundle.
    """
    counts = {}
    last = store.first("SELECT coalesce(max(id), 0) AS id FROM reviews")["id"]
    learnt: dict[str, Any] = {}  # annotations that runs were trained on; their new ids are known later
    for name, table in tables(store).items():
        counts[name] = 0
        for source in read_rows(file, name, table.names):
            row: Row = {}
            for column in table.columns:
                if column.name in source and column.name != table.key:
                    row[column.name] = stored(name, column, source[column.name], row, ids)
            old = source.get(table.key) if table.key else None
            if not _complete(store, table, row, ids, last, old):
                continue
            number = store.db.execute(
                f'INSERT INTO "{name}" ({quoted(row)}) VALUES ({", ".join("?" * len(row))})',
                list(row.values()),
            ).lastrowid
            counts[name] += 1
            if table.key:
                if not isinstance(old, (int, str)) or old in ids.of(name):
                    raise Refused(f"two rows of the bundle's {name} have the same id")
                ids.of(name)[old] = row.get(table.key, number)
            if name == "cases":
                ids.sizes[number or 0] = (row.get("width"), row.get("height"))
            if name == "runs" and isinstance(config := json.loads(source["config"]), dict) and config.get("marks"):
                learnt[row["id"]] = config["marks"]
        if name == "studies" and counts[name] != 1:
            raise Refused("a bundle must contain exactly one study")
    for run, run_marks in learnt.items():
        _learnt(store, run, run_marks, ids)
    return counts


def _complete(store: Store, table: Table, row: Row, ids: Ids, last: int, old: Any) -> bool:
    """Sets a row's new id and applies the checks of its table; returns whether the row is to be stored."""
    name = table.name
    if name == "studies":
        row["id"] = ids.study
    elif name == "runs":
        if not _METHOD.fullmatch(row["method"]):
            raise Refused(f"the bundle contains a run with an unknown method: {row['method'][:40]!r}")
        row["id"] = f"{row['method']}-{secrets.token_hex(4)}"
        row["folder"] = f"runs/{row['id']}"
        row["status"] = "interrupted" if row["status"] in _UNFINISHED else row["status"]
    elif name == "cluster_maps":
        row["key"] = secrets.token_hex(10)
    elif name in ("lesion_masks", "case_marks"):
        png = row.get("png" if name == "lesion_masks" else "normal")
        if png is not None and (png[:8] != b"\x89PNG\r\n\x1a\n" or _png_size(png) != ids.sizes[row["case_id"]]):
            raise Refused("a lesion mask in the bundle does not have the size of its image")
    elif name == "readings" and row.get("map") is not None:
        foreign_runs.check_map(row)
    elif name == "reading_sessions":
        for ordinal in ("first_review", "last_review"):
            if row.get(ordinal) is not None:
                row[ordinal] = ids.before(row[ordinal], last)
    elif name == "settings":
        key, _, study = row["key"].rpartition(":")
        if study != ids.was or key not in SETTINGS:
            return False
        if key == "adopted" and json.loads(row["value"]) not in ids.of("runs"):
            return False
        value = read(SETTINGS[key], json.loads(row["value"]), f"the bundle's setting {key}")
        value = foreign_runs.kept(value) | {"study": ids.study} if isinstance(value, Record) else ids.renamed(value)
        row |= {"key": f"{key}:{ids.study}", "value": json.dumps(value)}
    elif name == "evaluations" and row.get("run") is None:
        return json.loads(row["row"])["run"] is None  # otherwise the evaluated run was not exported
    elif name == "presets":
        return _preset(store, row, ids)
    return True


def _preset(store: Store, row: Row, ids: Ids) -> bool:
    """Renames a preset if its name is in use here; returns whether the preset is new here."""
    here = store.query("SELECT * FROM presets WHERE name = ?", [row["name"]])
    if any(
        (preset["strong"], json.loads(preset["config"])) == (row["strong"], json.loads(row["config"]))
        for preset in here
    ):
        return False
    if here:
        row["name"] = f"{row['name'][:40]} ({ids.study[:16]})"
        query = "SELECT coalesce(max(version), 0) + 1 AS version FROM presets WHERE name = ?"
        row["version"] = store.first(query, [row["name"]])["version"]
    return True


def _learnt(store: Store, run: str, value: Any, ids: Ids) -> None:
    """Stores the annotations on which a run was trained, and renumbers the cases shown in the run's comparison.

    The annotations are stored only if the bundle contains all of their cases and masks.
    """
    old: foreign_runs.Marks = read(foreign_runs.Marks, value, "the marks of a run in the bundle")
    case, mask = ids.of("cases"), ids.of("lesion_masks")
    row = store.first("SELECT config, summary FROM runs WHERE id = ?", [run])
    summary = json.loads(row["summary"])
    if figures := summary.get("comparison"):
        figures["run"] = run
        figures["pictured"] = [case[number] for number in figures.get("pictured", []) if number in case]
        store.db.execute("UPDATE runs SET summary = ? WHERE id = ?", [json.dumps(summary), run])
    try:
        new: dict[str, Any] = {
            "masks": [mask[number] for number in old.masks],
            "cases": [case[number] for number in old.cases],
            "reader": old.reader and ids.name_of(old.reader),
            "others": {str(case[int(of)]): [mask[number] for number in more] for of, more in old.others.items()},
            "unfinished": [case[number] for number in old.unfinished],
            "places": {str(case[int(of)]): png for of, png in old.places.items()},
            "normals": [case[number] for number in old.normals],
            "kinds": {label: [mask[number] for number in of] for label, of in old.kinds.items()},
        }
    except (KeyError, ValueError):
        return  # the run is kept, but cannot be repeated exactly
    new["sha256"] = marks.fingerprint(store, new)
    config = {**json.loads(row["config"]), "marks": new}
    store.db.execute("UPDATE runs SET config = ? WHERE id = ?", [json.dumps(config), run])


def _png_size(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


class Event(Record):
    """Audit event of another home. Events outside of the bundle's study contain only `id`, `previous` and `hash`."""

    id: Count
    at: Text | None
    who: Text | None
    kind: Text | None
    study: Text | None
    case_id: Count | None
    before: Text | None
    after: Text | None
    shown: Text | None
    seconds: Number | None
    previous: Sha256
    hash: Sha256


def keep_events(store: Store, rows: Iterable[Row], bundle: str) -> int:
    """Stores a bundle's audit events unchanged, labelled with the name `bundle`; returns the number of events."""
    count = 0
    names = ", ".join(("bundle", *EVENTS))
    statement = f"INSERT INTO foreign_events ({names}) VALUES ({', '.join('?' * (1 + len(EVENTS)))})"
    for row in rows:
        with refusing("an event in the bundle"):
            event = Event.model_validate(row).model_dump()
        store.db.execute(statement, [bundle, *(event[column] for column in EVENTS)])
        count += 1
    return count


def verify_foreign(store: Store) -> list[str]:
    """Returns a sentence for each event in imported audit trails that was altered or does not follow the one before."""
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


# A bundle is unpacked and checked in a separate folder, stored in one transaction, then moved into place.


def import_bundle(store: Store, source: Path, by: str, limits: Limits | None = None) -> dict:
    """Imports the study of a bundle into this home, entirely or not at all.

    Returns {"study", "rows": {table: number}, "readers": {name: new name}, "missing", "changed"}. `missing["images"]`
    lists the names of cases without an image, `missing["maps"]` the keys of maps without files, and `changed` the names
    of cases whose image was modified after its original import. Raises Refused, and changes nothing, if the study
    already exists, or if the file is damaged, too large or contains anything that does not belong in a bundle.
    """
    source = Path(source)
    DETECTORS.names()  # imports torch here, because other writers would wait for the import below
    limits = limits or Limits()
    with leftovers.folder(store.home.path, "bundle-") as staged, refusing(source.name):
        with zipfile.ZipFile(source) as bundle:
            manifest = manifest_of(bundle, limits)
            digests = unpack(source, bundle, manifest, staged, limits)
        return _store(store, staged, manifest, digests, by)


def _study_of(store: Store, name: str) -> str:
    try:
        study = slug(name)
    except ValueError:
        raise Refused("the study in the bundle has no valid name") from None
    if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) or (store.home.files / study).exists():
        raise Refused(f"there is already a study {study!r} here: delete it first")
    return study


def _store(store: Store, staged: Path, manifest: Manifest, digests: dict[str, str], by: str) -> dict:
    study = _study_of(store, manifest.study)
    files = store.home.files / study
    accounts = {r["name"] for r in list_readers(store)}
    ids = Ids(study, manifest.study, store.home, files, accounts)
    moved: list[Path] = []
    mark = f"{study} {manifest.made[:40]} {secrets.token_hex(4)}"
    try:
        with store.write():
            counts = store_rows(store, staged / ROWS, ids)
            contents = store.query("SELECT DISTINCT sha256 FROM cases WHERE study = ?", [study])
            erased.forget_erased(store, [row["sha256"] for row in contents])
            counts["events"] = keep_events(store, read_rows(staged / ROWS, "events", EVENTS), mark)
            moves, lost_maps = maps.adopt(store, staged, ids)
            report = _report(store, study, digests, files)
            report["missing"]["maps"] = [*manifest.missing.get("maps", []), *lost_maps]
            record = {
                "rows": counts,
                "readers": ids.reader,
                "bundle": mark,
                "reviews": audit.seal_reviews(store, study),
            }
            audit.record(store, by, "import", study=study, after=record)
            if (staged / "images").is_dir():
                leftovers.hold(staged / "images")  # moved before others can see the study's row
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


def _report(store: Store, study: str, digests: dict[str, str], files: Path) -> dict:
    gone, changed = [], []
    for case in store.query("SELECT name, path, sha256 FROM cases WHERE study = ? ORDER BY id", [study]):
        digest = digests.get(f"images/{Path(case['path']).relative_to(files).as_posix()}")
        if digest is None:
            gone.append(case["name"])
        elif case["sha256"] and digest != case["sha256"]:
            changed.append(case["name"])
    return {"missing": {"images": gone}, "changed": changed}


def _runs(store: Store, staged: Path, ids: Ids) -> list[tuple[Path, Path]]:
    """Returns (from, to) for each run folder to move. Raises Refused if a folder's run is not in the bundle's rows."""
    root = staged / "runs"
    folders = sorted(root.iterdir()) if root.is_dir() else []
    unknown = [f.name for f in folders if f.name not in ids.of("runs")]
    if unknown:
        raise Refused(f"the bundle contains files of an unlisted run: {unknown[0][:80]!r}")
    for folder in folders:
        for name in NOT_OF_THE_RUN:
            (folder / name).unlink(missing_ok=True)
    moves = [(folder, store.home.runs / ids.of("runs")[folder.name]) for folder in folders]
    for new in set(ids.of("runs").values()) - {target.name for _, target in moves}:
        (staged / "new" / new).mkdir(parents=True)
        moves.append((staged / "new" / new, store.home.runs / new))
    return moves


def _move(moves: list[tuple[Path, Path]], moved: list[Path]) -> None:
    for source, target in moves:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise Refused(f"{target.name} already exists here")
        source.rename(target)
        moved.append(target)
