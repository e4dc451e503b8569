"""A bundle out: one zip, streamed file by file with a hash of each, the list of contents last."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.studio.db import audit, leftovers
from core.studio.db.store import Store, now
from core.studio.ingest import burned_in
from core.studio.review.exports.bundle import maps
from core.studio.review.exports.bundle.checks import BLOCK, EVENTS, FORMATS, MANIFEST, ROWS, TABLES, safe_name

NOT_OF_THE_RUN = ("process.json",)  # who is at work on it, on this machine


class _Sink(io.RawIOBase):
    """What the zip writes, until it is handed on."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def take(self) -> bytes:
        found, self.parts = b"".join(self.parts), []
        return found


class BundleWriter:
    """One export of a study, streamed as a zip.

    What is missing is known before the first byte; `rows` and `changed` are complete after the last. missing:
    {"images": names of cases whose file has gone, "maps": maps whose files were cleared from the cache}; changed: names
    of cases whose file is not the one that was imported. Raises ValueError for an unknown study.
    """

    def __init__(self, store: Store, study: str, by: str, images: bool = True, runs: bool = True):
        if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) is None:
            raise ValueError(f"there is no study {study!r}")
        self.store, self.study, self.made = store, study, now()
        self.burned_in = burned_in.among(store, study)
        self.rows: dict[str, int] = {}
        self.changed: list[str] = []
        self._files: dict[str, dict] = {}
        cases = store.query("SELECT path, name, sha256 FROM cases WHERE study = ? ORDER BY id", [study])
        self._images = {c["path"]: "" for c in cases}  # path on this machine: name inside the bundle
        for number, path in enumerate(self._images):
            self._images[path] = f"images/{number:06d}/{safe_name(path)}"
        self._cases = {c["path"]: c for c in cases}
        there = [p for p in self._images if images and Path(p).is_file()]
        self._send: list[tuple[Path, str]] = [(Path(p), self._images[p]) for p in there]
        gone = set(self._images) - set(there) if images else set()
        self.missing: dict[str, list[str]] = {"images": [self._cases[p]["name"] for p in self._images if p in gone]}
        if runs:
            self._send += self._run_files()
        map_files, self.missing["maps"] = maps.files_of(store, study)
        self._send += map_files
        details = {"format": "bundle", "images": images, "runs": runs, "burned_in": len(self.burned_in["cases"])}
        details["missing"] = {kind: len(names) for kind, names in self.missing.items()}
        audit.record(store, by, "export", study=study, after=details)

    def _run_files(self) -> Iterator[tuple[Path, str]]:
        for run in self.store.query("SELECT id, folder FROM runs WHERE study = ? AND binned IS NULL", [self.study]):
            root = self.store.home.path / run["folder"]
            for file in sorted(f for f in root.rglob("*") if f.is_file() and f.name not in NOT_OF_THE_RUN):
                yield file, f"runs/{run['id']}/{file.relative_to(root).as_posix()}"

    def chunks(self) -> Iterator[bytes]:
        """Yields the zip in pieces of about a mebibyte, without the zip ever lying on this disk."""
        sink = _Sink()
        with (
            leftovers.folder(self.store.home.cache) as folder,
            zipfile.ZipFile(sink, "w", allowZip64=True) as out,
        ):
            rows = folder / ROWS
            self._write_rows(rows)
            for path, name in [*self._send, (rows, ROWS)]:
                yield from self._add(out, sink, path, name)
            self._check_images()
            out.writestr(MANIFEST, json.dumps(self._manifest(), indent=1), zipfile.ZIP_DEFLATED)
        yield sink.take()

    def _add(self, out: zipfile.ZipFile, sink: _Sink, path: Path, name: str) -> Iterator[bytes]:
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED if name == ROWS else zipfile.ZIP_STORED
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as file, out.open(info, "w", force_zip64=True) as entry:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
                entry.write(block)
                yield sink.take()
        self._files[name] = {"bytes": size, "sha256": digest.hexdigest()}

    def _check_images(self) -> None:
        for path, case in self._cases.items():
            sent = self._files.get(self._images[path])
            if sent and case["sha256"] and sent["sha256"] != case["sha256"]:
                self.changed.append(case["name"])

    def _manifest(self) -> dict:
        return {
            "format": FORMATS[-1],
            "study": self.study,
            "made": self.made,
            "rows": self.rows,
            "files": self._files,
            "missing": self.missing,
            "changed": self.changed,
            "burned_in_text": self.burned_in["cases"],
        }

    def _write_rows(self, file: Path) -> None:
        db = self.store.db
        out = sqlite3.connect(file)
        db.conn.execute("BEGIN")  # all tables as they are at one moment, while readers go on
        try:
            for table, about in TABLES.items():
                columns = list(about.columns)
                found = db.execute(
                    f'SELECT {_listed(columns)} FROM "{table}" WHERE {about.where}', {"study": self.study}
                )
                self.rows[table] = _copy(out, table, columns, self._without_paths(table, columns, found))
            # Of other studies only the links of the chain go along, not what was done there.
            sealed = ", ".join(f"CASE WHEN study IS :study THEN {c} END" for c in EVENTS[1:-2])
            query = f"SELECT id, {sealed}, previous, hash FROM events ORDER BY id"
            self.rows["events"] = _copy(out, "events", list(EVENTS), db.execute(query, {"study": self.study}))
        finally:
            db.conn.rollback()
        out.commit()
        out.close()

    def _without_paths(self, table: str, columns: list[str], rows: Iterable[tuple]) -> Iterator[tuple]:
        """Rows with the names that images have inside the bundle, instead of this machine's paths."""
        at = columns.index("path") if table == "cases" else None
        for row in rows:
            yield row if at is None else (*row[:at], self._images[row[at]], *row[at + 1 :])


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(f'"{c}"' for c in columns)


def _copy(out: sqlite3.Connection, table: str, columns: list[str], rows: Iterable[tuple]) -> int:
    out.execute(f'CREATE TABLE "{table}" ({_listed(columns)})')
    return out.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows).rowcount


def export_bundle(store: Store, study: str, target: Path, by: str, images: bool = True, runs: bool = True) -> dict:
    """Writes a study as the zip `target`; {"file", "bytes", "rows": {table: n}, "burned_in", "missing", "changed"}."""
    target = Path(target)
    partial = target.with_name(target.name + ".partial")
    writer = BundleWriter(store, study, by, images, runs)
    try:
        with partial.open("wb") as out:
            for chunk in writer.chunks():
                out.write(chunk)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    done = {"rows": writer.rows, "burned_in": writer.burned_in, "missing": writer.missing, "changed": writer.changed}
    return {"file": str(target), "bytes": target.stat().st_size, **done}
