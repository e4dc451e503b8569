"""Streams a bundle as one zip file with a hash of each contained file, and unpacks bundles within size limits."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.engine.files import replacing
from core.studio.bundle import maps
from core.studio.bundle.contents import tables
from core.studio.db import audit, leftovers
from core.studio.db.foreign import Count, Name, Record, Refused, Sha256, Text, parts_of, read, read_json, safe_name
from core.studio.db.store import Store, now
from core.studio.ingest import burned_in
from core.studio.runs.foreign_runs import nameless

# A bundle is unpacked into a separate folder, with every byte counted and hashed, before any content is trusted.

FORMAT = 3
ROWS = "rows.sqlite"
MANIFEST = "manifest.json"
FOLDERS = ("images", "runs", "clusters")
SHRINK = (ROWS, ".npy", ".jsonl")  # files that are compressed; images and weights would not shrink
BLOCK = 1 << 20
EVENTS = (*audit.SEALED, "hash")
NOT_OF_THE_RUN = ("process.json",)  # describes the process that works on the run on this machine


@dataclass(frozen=True)
class Limits:
    """Limits on unpacking a bundle: number of files (`entries`), compression ratio (`ratio`), and sizes in bytes."""

    entries: int = 1_000_000
    bytes: int = 1 << 40
    ratio: int = 20  # unpacked bytes per byte of the zip file, because images and heat maps are already compressed
    always: int = 64 << 20  # unpacked bytes that are allowed at any ratio
    manifest: int = 256 << 20
    spare: int = 1 << 30  # bytes that must stay free on the disk


class Packed(Record):
    """Size in bytes and SHA-256 of a file in a bundle."""

    bytes: Count
    sha256: Sha256


class Manifest(Record):
    """Contents of a bundle: rows per table, size and hash of each file, missing maps, missing and changed images."""

    format: Literal[3]
    study: Name
    made: Name
    rows: dict[Name, Count]
    files: dict[Text, Packed]
    missing: dict[Literal["images", "maps"], list[Text]]
    changed: list[Text]
    burned_in_text: list[Any]


def manifest_of(bundle: zipfile.ZipFile, limits: Limits) -> Manifest:
    """Reads the manifest of a bundle. Raises Refused if it is too large, incomplete or in another format."""
    with bundle.open(MANIFEST) as file:
        text = file.read(limits.manifest + 1)
    if len(text) > limits.manifest:
        raise Refused(f"the bundle's list of contents is too large: at most {limits.manifest:,} bytes are read")
    contents = read_json(text, "the bundle's list of contents")
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        kind = contents.get("format") if isinstance(contents, dict) else None
        raise Refused(f"this bundle has format {str(kind)[:20]}, but this version of the studio reads only {FORMAT}")
    manifest: Manifest = read(Manifest, contents, "the bundle's list of contents")
    return manifest


def _listed(bundle: zipfile.ZipFile, manifest: Manifest, limits: Limits) -> list[zipfile.ZipInfo]:
    """Returns the entries to unpack. Raises Refused if names are unknown, repeated, missing or too many."""
    entries = [i for i in bundle.infolist() if i.filename != MANIFEST]
    names = [i.filename for i in entries]
    if len(names) > limits.entries:
        raise Refused(f"the bundle contains {len(names)} files; at most {limits.entries} are allowed")
    if len(set(names)) != len(names):
        raise Refused("the bundle contains two files with the same name")
    for name in names:
        components = parts_of(name)
        if name != ROWS and (components[0] not in FOLDERS or len(components) < 3):
            raise Refused(f"the bundle contains a file that is not part of a study: {name[:200]!r}")
    differ = set(manifest.files).symmetric_difference(names)
    if differ:
        raise Refused(f"{min(differ)[:200]!r} is missing either in the bundle or in its list of contents")
    if ROWS not in names:
        raise Refused(f"the bundle does not contain the file {ROWS}")
    return entries


def unpack(source: Path, bundle: zipfile.ZipFile, manifest: Manifest, folder: Path, limits: Limits) -> dict[str, str]:
    """Unpacks a bundle; returns {file name: SHA-256}. Raises Refused if the bundle violates `manifest` or `limits`."""
    entries = _listed(bundle, manifest, limits)
    room = min(limits.bytes, max(limits.always, limits.ratio * source.stat().st_size))
    free = shutil.disk_usage(folder).free - limits.spare
    claimed = sum(i.file_size for i in entries)
    if claimed > room:
        raise Refused(f"the bundle would unpack to {claimed:,} bytes; at most {room:,} are allowed")
    if claimed > free:
        raise Refused(f"the bundle needs {claimed:,} bytes on disk, but only {max(free, 0):,} are free")
    digests: dict[str, str] = {}
    for info in entries:
        target = folder.joinpath(*parts_of(info.filename))
        target.parent.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with bundle.open(info) as file, target.open("xb") as out:
            while block := file.read(BLOCK):
                room -= len(block)
                size += len(block)
                if room < 0 or size > info.file_size:
                    raise Refused("the bundle unpacks to more bytes than it declares")
                digest.update(block)
                out.write(block)
        digests[info.filename] = digest.hexdigest()
        if manifest.files[info.filename].sha256 != digests[info.filename]:
            raise Refused(f"{info.filename[:200]!r} does not have the hash in the bundle's list of contents")
    return digests


class _Sink(io.RawIOBase):
    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def take(self) -> bytes:
        written, self.parts = b"".join(self.parts), []
        return written


class BundleWriter:
    """Exports a study as a zip file, in pieces. The constructor records the export by user `by` in the audit trail.

    `missing["images"]` lists the names of cases without an image file, and `missing["maps"]` the keys of maps without
    cached files. After the last of the `chunks`, `rows` contains the number of rows by table, and `changed` the names
    of cases whose image was modified after its import. Raises ValueError if the study is unknown.
    """

    def __init__(self, store: Store, study: str, by: str):
        if store.one("SELECT 1 FROM studies WHERE id = ?", [study]) is None:
            raise ValueError(f"unknown study {study!r}")
        self.store, self.study, self.made = store, study, now()
        self.burned_in = burned_in.among(store, study)
        self.rows: dict[str, int] = {}
        self.changed: list[str] = []
        self._files: dict[str, dict] = {}
        cases = store.query("SELECT path, name, sha256 FROM cases WHERE study = ? ORDER BY id", [study])
        self._images = {c["path"]: "" for c in cases}  # name in the bundle by path on this machine
        for number, path in enumerate(self._images):
            self._images[path] = f"images/{number:06d}/{safe_name(path)}"
        self._cases = {c["path"]: c for c in cases}
        existing = {p for p in self._images if Path(p).is_file()}
        absent = [case["name"] for path, case in self._cases.items() if path not in existing]
        self.missing: dict[str, list[str]] = {"images": absent}
        map_files, self.missing["maps"] = maps.files_of(store, study)
        images = [(Path(p), name) for p, name in self._images.items() if p in existing]
        self._send: list[tuple[Path, str]] = [*images, *self._run_files(), *map_files]
        details: dict[str, Any] = {"format": "bundle", "burned_in": len(self.burned_in["cases"])}
        details["missing"] = {kind: len(names) for kind, names in self.missing.items()}
        audit.record(store, by, "export", study=study, after=details)

    def _run_files(self) -> Iterator[tuple[Path, str]]:
        for run in self.store.query("SELECT id, folder FROM runs WHERE study = ? AND binned IS NULL", [self.study]):
            root = self.store.home.path / run["folder"]
            for file in sorted(f for f in root.rglob("*") if f.is_file() and f.name not in NOT_OF_THE_RUN):
                yield file, f"runs/{run['id']}/{file.relative_to(root).as_posix()}"

    def chunks(self) -> Iterator[bytes]:
        """Yields the zip file in pieces of about 1 MiB. Only the database rows are written to a temporary file."""
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
        info.compress_type = zipfile.ZIP_DEFLATED if name.endswith(SHRINK) else zipfile.ZIP_STORED
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
            "format": FORMAT,
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
        db.conn.execute("BEGIN")  # reads a consistent state of all tables, while readers continue to work
        try:
            for table in tables(self.store).values():
                query = f'SELECT {quoted(table.names)} FROM "{table.name}" WHERE {table.where}'
                selected = db.execute(query, {"study": self.study})
                rows = (self._without_paths(table.name, dict(zip(table.names, row, strict=True))) for row in selected)
                self.rows[table.name] = _copy(out, table.name, table.names, rows)
            # Events of other studies are exported only as links of the chain of hashes, without content.
            sealed = ", ".join(f"CASE WHEN study IS :study THEN {c} END" for c in EVENTS[1:-2])
            query = f"SELECT id, {sealed}, previous, hash FROM events ORDER BY id"
            self.rows["events"] = _copy(out, "events", list(EVENTS), db.execute(query, {"study": self.study}))
        finally:
            db.conn.rollback()
        out.commit()
        out.close()

    def _without_paths(self, table: str, row: dict[str, Any]) -> tuple[Any, ...]:
        """Returns a row in which paths on this machine are replaced by names of files in the bundle."""
        if table == "cases":
            row["path"] = self._images[row["path"]]
        elif table == "runs":
            row["config"] = json.dumps(nameless(json.loads(row["config"])))
        return tuple(row.values())


def quoted(columns: Iterable[str]) -> str:
    """Quotes column names for SQL and joins them with commas."""
    return ", ".join(f'"{column}"' for column in columns)


def _copy(out: sqlite3.Connection, table: str, columns: list[str], rows: Iterable[tuple]) -> int:
    out.execute(f'CREATE TABLE "{table}" ({quoted(columns)})')
    return out.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows).rowcount


def export_bundle(store: Store, study: str, target: Path, by: str) -> dict:
    """Exports a study to the file `target`; returns {"file", "bytes", "rows", "burned_in", "missing", "changed"}."""
    target = Path(target)
    writer = BundleWriter(store, study, by)
    with replacing(target) as draft, draft.open("wb") as out:
        for chunk in writer.chunks():
            out.write(chunk)
    done = {"rows": writer.rows, "burned_in": writer.burned_in, "missing": writer.missing, "changed": writer.changed}
    return {"file": str(target), "bytes": target.stat().st_size, **done}
