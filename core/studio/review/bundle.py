"""A study in one zip: its rows in a SQLite file, its images, its runs' files, and the audit trail.

A bundle keeps names and times as they are, so that nothing is lost and the trail's seals hold: it is for moving a study
between installations, not for publishing it. In a home that has nothing yet every row keeps its number.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from core.studio.db import audit
from core.studio.db.store import Store, now
from core.studio.ingest import burned_in

FORMAT = 1
_OF_STUDY = "case_id IN (SELECT id FROM cases WHERE study = :study)"
_OF_RUN = "run IN (SELECT id FROM runs WHERE study = :study)"
TABLES = {  # in the order in which foreign keys allow them to be written
    "studies": "id = :study",
    "cases": "study = :study",
    "runs": "study = :study",
    "lesion_masks": _OF_STUDY,
    "metrics": _OF_RUN,
    "logs": _OF_RUN,
    "readings": _OF_RUN,
    "evaluations": "study = :study",
    "readers": "name IN (SELECT reader FROM reviews WHERE " + _OF_STUDY + ")",
    "reviews": _OF_STUDY,
    "assignments": _OF_STUDY,
    "findings": _OF_STUDY,
    "undone": "study = :study",
    "settings": "key LIKE '%:' || :study",
}
_NUMBERED = ("cases", "lesion_masks", "logs", "evaluations", "reviews", "findings")
_POINTS_AT = {"case_id": "cases", "review_id": "reviews"}


class BadBundle(ValueError):
    """A file that is no bundle, or one that cannot be brought into this home."""


def export_bundle(store: Store, study: str, target: Path, by: str, images: bool = True, runs: bool = True) -> dict:
    """Write the zip `target`; {"file", "bytes", "rows": {table: n}, "burned_in"}. ValueError for an unknown study."""
    if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) is None:
        raise ValueError(f"there is no study {study!r}")
    text = burned_in.among(store, study)
    told = {"format": "bundle", "images": images, "runs": runs, "burned_in": len(text["cases"])}
    audit.record(store, by, "export", study=study, after=told)
    target = Path(target)
    partial = target.with_name(target.name + ".partial")
    with (
        tempfile.TemporaryDirectory(dir=target.parent) as folder,
        zipfile.ZipFile(partial, "w", allowZip64=True) as out,
    ):
        rows = _rows_out(store, study, Path(folder) / "rows.sqlite")
        files = {}
        if images:
            for i, path in enumerate(sorted({c["path"] for c in _cases(store, study)})):
                if Path(path).is_file():
                    files[path] = f"images/{i:06d}/{Path(path).name}"
                    out.write(path, files[path], zipfile.ZIP_STORED)
        if runs:
            for run in store.query("SELECT id, folder FROM runs WHERE study = ?", [study]):
                root = store.home.path / run["folder"]
                for file in sorted(f for f in root.rglob("*") if f.is_file()):
                    out.write(file, f"runs/{run['id']}/{file.relative_to(root).as_posix()}", zipfile.ZIP_STORED)
        out.write(Path(folder) / "rows.sqlite", "rows.sqlite", zipfile.ZIP_DEFLATED)
        manifest = {"format": FORMAT, "study": study, "made": now(), "rows": rows, "images": files}
        manifest["burned_in_text"] = text["cases"]
        out.writestr("manifest.json", json.dumps(manifest, indent=1))
    partial.replace(target)
    return {"file": str(target), "bytes": target.stat().st_size, "rows": rows, "burned_in": text}


def _cases(store: Store, study: str) -> list[dict]:
    return store.query("SELECT path FROM cases WHERE study = ?", [study])


def _rows_out(store: Store, study: str, file: Path) -> dict[str, int]:
    counts = {}
    out = sqlite3.connect(file)
    for table, where in TABLES.items():
        source = store.db.execute(f'SELECT * FROM "{table}" WHERE {where}', {"study": study})
        counts[table] = _copy(out, table, [d[0] for d in source.description], source)
    events = store.db.execute(
        # Of other studies only the links of the chain go along, not what was done there.
        "SELECT id, " + ", ".join(f"CASE WHEN study IS :study THEN {c} END AS {c}" for c in audit._SEALED[1:-1])
        + ", previous, hash FROM events ORDER BY id",
        {"study": study},
    )  # fmt: skip
    counts["events"] = _copy(out, "events", [d[0] for d in events.description], events)
    out.commit()
    out.close()
    return counts


def _copy(out: sqlite3.Connection, table: str, columns: list[str], rows) -> int:
    names = ", ".join(f'"{c}"' for c in columns)
    out.execute(f'CREATE TABLE "{table}" ({names})')
    return out.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows).rowcount


def import_bundle(store: Store, source: Path, by: str) -> dict:
    """Bring a bundle in; {"study", "rows"}. BadBundle if its study is already here or the file is damaged."""
    try:
        with zipfile.ZipFile(source) as bundle, tempfile.TemporaryDirectory(dir=store.home.path) as folder:
            manifest = json.loads(bundle.read("manifest.json"))
            if manifest["format"] != FORMAT:
                raise BadBundle(
                    f"this bundle has format {manifest['format']}; this installation reads {FORMAT}: update it"
                )
            study = manifest["study"]
            if store.one("SELECT 1 FROM studies WHERE id = ?", [study]):
                raise BadBundle(f"there is already a study {study!r} here")
            bundle.extract("rows.sqlite", folder)
            moved = {old: str(store.home.files / study / _inside(new)) for old, new in manifest["images"].items()}
            with store.write():
                rows = _rows_in(store, Path(folder) / "rows.sqlite", moved, f"{study} {manifest['made']}")
                _files_in(store, bundle, manifest, moved)
                if not rows.pop("whole"):
                    audit.record(store, by, "import", study=study, after={"bundle": manifest["made"], "rows": rows})
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError, sqlite3.DatabaseError) as error:
        raise BadBundle(f"{Path(source).name} is no study bundle, or it is damaged ({error})") from None
    return {"study": study, "rows": rows}


def _inside(name: str) -> str:
    """A path inside the bundle, without its first part; refused if it would lead out of its folder."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or len(parts) < 2:
        raise BadBundle(f"the bundle names a file outside itself: {name!r}")
    return "/".join(parts[1:])


def _files_in(store: Store, bundle: zipfile.ZipFile, manifest: dict, moved: dict[str, str]) -> None:
    wanted = {new: Path(moved[old]) for old, new in manifest["images"].items()}
    for name in bundle.namelist():
        if name.startswith("runs/") and not name.endswith("/"):
            wanted[name] = store.home.runs / _inside(name)
    for name, target in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with bundle.open(name) as file, target.open("wb") as out:
            shutil.copyfileobj(file, out)


def _rows_in(store: Store, file: Path, moved: dict[str, str], mark: str) -> dict:
    source = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    source.row_factory = sqlite3.Row
    db = store.db
    empty = not any(store.one(f"SELECT 1 FROM {t} LIMIT 1") for t in ("studies", "events"))
    shift = {t: 0 if empty else db.execute(f"SELECT coalesce(max(id), 0) FROM {t}").fetchone()[0] for t in _NUMBERED}
    counts: dict = {}
    for table in TABLES:
        counts[table] = 0
        have = {d[1] for d in db.execute(f'PRAGMA table_info("{table}")')}
        order = " ORDER BY parent IS NOT NULL" if table == "runs" else ""
        for found in source.execute(f'SELECT * FROM "{table}"{order}'):
            row = {k: found[k] for k in found.keys() if k in have}  # noqa: SIM118
            if table in _NUMBERED:
                row["id"] += shift[table]
            for column, at in _POINTS_AT.items():
                if row.get(column) is not None:
                    row[column] += shift[at]
            if table == "cases":
                row["path"] = moved.get(row["path"], row["path"])
            known = "OR IGNORE " if table in ("readers", "settings") else ""
            names = ", ".join(f'"{c}"' for c in row)
            db.execute(
                f'INSERT {known}INTO "{table}" ({names}) VALUES ({", ".join("?" * len(row))})', list(row.values())
            )
            counts[table] += 1
    events = [dict(e) for e in source.execute("SELECT * FROM events ORDER BY id")]
    source.close()
    counts["whole"] = empty and all(e["at"] is not None for e in events)
    for event in events:
        row = event if counts["whole"] else {"bundle": mark, **event}
        table = "events" if counts["whole"] else "foreign_events"
        db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    counts["events"] = len(events)
    return counts


def verify_foreign(store: Store) -> list[str]:
    """Problems in the trails that came with bundles: links of every event, seals of those whose content came along."""
    problems, last = [], {}
    for row in store.db.query("SELECT * FROM foreign_events ORDER BY bundle, id"):
        bundle = row.pop("bundle")
        if row["previous"] != last.get(bundle, audit.START):
            problems.append(f"{bundle}: event {row['id']} does not follow the event before it")
        if row["at"] is not None and audit.seal(row) != row["hash"]:
            problems.append(f"{bundle}: event {row['id']} was altered")
        last[bundle] = row["hash"]
    return problems
