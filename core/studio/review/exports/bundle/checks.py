"""What a bundle may hold: files and their limits, tables with their columns, values of each kind."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import zipfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from core.studio.db import audit

# A bundle's zip is unpacked into a folder of its own, every byte counted and hashed, before anything is believed.

FORMATS = (1, 2)  # 1: without a list of hashes
ROWS = "rows.sqlite"
MANIFEST = "manifest.json"
FOLDERS = ("images", "runs", "clusters")
BLOCK = 1 << 20


class BadBundle(ValueError):
    """A file that is no bundle, or one that cannot be brought into this home; the message says why."""


@dataclass(frozen=True)
class Limits:
    """Limits on the size of a bundle that is unpacked."""

    entries: int = 1_000_000
    bytes: int = 1 << 40
    ratio: int = 20  # unpacked bytes for each byte of the zip: images and heat maps are compressed already
    always: int = 64 << 20  # unpacked bytes that are allowed whatever the ratio
    manifest: int = 256 << 20
    spare: int = 1 << 30  # bytes that stay free on the disk


def parts_of(name: str) -> tuple[str, ...]:
    """Splits a name inside the bundle into its parts. Raises BadBundle if it could lead out of its folder."""
    parts = tuple(name.split("/"))
    bad = any(p in ("", ".", "..") or len(p.encode()) > 240 or not p.isprintable() for p in parts)
    if bad or len(name) > 1000 or "\\" in name or ":" in parts[0]:
        raise BadBundle(f"the bundle names a file outside itself: {name[:200]!r}")
    return parts


def safe_name(name: str) -> str:
    """Makes the last part of any path a name that `parts_of` takes."""
    last = PurePosixPath(name.replace("\\", "/")).name
    kept = "".join(c if c.isprintable() else "_" for c in last)
    while len(kept.encode()) > 240:
        kept = kept[1:]  # the suffix is kept
    return kept if kept not in ("", ".", "..") else "file"


def manifest_of(bundle: zipfile.ZipFile, limits: Limits) -> dict[str, Any]:
    """Reads the bundle's manifest. Raises BadBundle if it is too large, incomplete or of another format."""
    with bundle.open(MANIFEST) as file:
        text = file.read(limits.manifest + 1)
    if len(text) > limits.manifest:
        raise BadBundle("the bundle's list of contents is larger than any study needs")
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("format") not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        kind = found.get("format") if isinstance(found, dict) else None
        raise BadBundle(f"this bundle has format {str(kind)[:20]}; this installation reads {known}: update it")
    for key, kind in (("study", str), ("made", str), ("images" if found["format"] == 1 else "files", dict)):
        if not isinstance(found.get(key), kind):
            raise BadBundle(f"the bundle's list of contents has no {key!r}")
    return found


def _known(bundle: zipfile.ZipFile, manifest: dict, limits: Limits) -> list[zipfile.ZipInfo]:
    """The entries to unpack. Raises BadBundle for names that are not known, given twice, missing, or too much."""
    found = [i for i in bundle.infolist() if i.filename != MANIFEST]
    names = [i.filename for i in found]
    if len(names) > limits.entries:
        raise BadBundle(f"the bundle holds {len(names)} files; at most {limits.entries} are unpacked")
    if len(set(names)) != len(names):
        raise BadBundle("the bundle holds two files of one name")
    for name in names:
        parts = parts_of(name)
        if name != ROWS and (parts[0] not in FOLDERS or len(parts) < 3):
            raise BadBundle(f"the bundle holds a file that belongs to no study: {name[:200]!r}")
    if manifest["format"] > 1:
        differ = set(manifest["files"]).symmetric_difference(names)
        if differ:
            raise BadBundle(f"{min(differ)[:200]!r} is either not in the bundle or not in its list of contents")
    return found


def unpack(source: Path, bundle: zipfile.ZipFile, manifest: dict, folder: Path, limits: Limits) -> dict[str, str]:
    """Unpacks into `folder`; {name: sha256}. Raises BadBundle if a limit is passed or a hash is not the listed one."""
    found = _known(bundle, manifest, limits)
    room = min(limits.bytes, max(limits.always, limits.ratio * source.stat().st_size))
    free = shutil.disk_usage(folder).free - limits.spare
    claimed = sum(i.file_size for i in found)
    if claimed > room:
        raise BadBundle(f"the bundle would unpack to {claimed:,} bytes; at most {room:,} are unpacked")
    if claimed > free:
        raise BadBundle(f"the bundle needs {claimed:,} bytes on disk; {max(free, 0):,} are to spare")
    digests: dict[str, str] = {}
    for info in found:
        target = folder.joinpath(*parts_of(info.filename))
        target.parent.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with bundle.open(info) as file, target.open("xb") as out:
            while block := file.read(BLOCK):
                room -= len(block)
                size += len(block)
                if room < 0 or size > info.file_size:
                    raise BadBundle("the bundle unpacks to more than it says")
                digest.update(block)
                out.write(block)
        digests[info.filename] = digest.hexdigest()
        if manifest["format"] > 1:
            listed = manifest["files"][info.filename]
            if not isinstance(listed, dict) or listed.get("sha256") != digests[info.filename]:
                raise BadBundle(f"{info.filename[:200]!r} is not the file that the bundle's list of hashes names")
    if ROWS not in digests:
        raise BadBundle("the bundle has no rows")
    return digests


# What a bundle holds of the database: tables, the rows of one study, columns, and what each column may hold.
# Kinds of values: `id` the row's own number; `case`, `review`, `run`, `map` refer to another row; `reader` a reader's
# name; `file` a name inside the bundle; `name`, `text`, `time`, `json`, `int`, `real`, `blob` as they say. A `?`
# allows NULL. Columns that are not named here stay at home: the folders of this machine, jobs, password hashes.

SETTINGS = ("labels", "blind", "import")  # of a study; its key for de-identified names never leaves the home

_CASES = "SELECT id FROM cases WHERE study = :study"
_RUNS = "SELECT id FROM runs WHERE study = :study AND binned IS NULL"


@dataclass(frozen=True)
class Table:
    """What a bundle holds of one table. where: SQL for the rows of :study. columns: name -> kind."""

    where: str
    columns: dict[str, str]


TABLES = {  # in the order in which foreign keys allow them to be written
    "studies": Table(
        "id = :study",
        {"name": "name", "created": "time", "layout": "text?", "config": "json", "fingerprint": "text?"},
    ),
    "cases": Table(
        "study = :study",
        {
            "id": "id", "name": "name", "path": "file", "frame": "int", "split": "text", "label": "text",
            "width": "int?", "height": "int?", "bits": "int?", "modality": "text?", "sha256": "text?",
            "phash": "text?", "row": "int", "added": "time", "tags": "json", "burned_in": "int?", "series": "text?",
            "place": "real?", "slice": "int?", "patient": "text?", "scale": "json?",
        },
    ),
    "runs": Table(
        "study = :study",
        {
            "id": "id", "kind": "text", "name": "name", "parent": "run?", "method": "text", "config": "json",
            "status": "text", "created": "time", "finished": "time?", "seconds": "real?", "code": "text?",
            "packages": "json?", "device": "text?", "note": "text", "archived": "int", "summary": "json",
        },
    ),
    "lesion_masks": Table(
        f"case_id IN ({_CASES})",
        {
            "id": "id", "case_id": "case", "version": "int", "source": "text", "reader": "reader?",
            "created": "time", "run": "run?", "threshold": "real?", "png": "blob", "note": "text",
        },
    ),
    "metrics": Table(f"run IN ({_RUNS})", {"run": "run", "step": "int", "name": "text", "value": "real?"}),
    "logs": Table(f"run IN ({_RUNS})", {"id": "id", "run": "run", "at": "time", "line": "text"}),
    "readings": Table(
        f"run IN ({_RUNS}) AND case_id IN ({_CASES})",
        {
            "run": "run", "case_id": "case", "score": "real?", "score_roi": "real?", "percentile": "real?",
            "percentile_roi": "real?", "flagged": "int?", "flagged_roi": "int?", "map": "blob?", "map_h": "int?",
            "map_w": "int?", "map_lo": "real?", "map_hi": "real?", "extra": "json", "created": "time",
        },
    ),
    "evaluations": Table("study = :study", {"id": "id", "run": "run?", "created": "time", "row": "json"}),
    "reviews": Table(
        f"case_id IN ({_CASES})",
        {
            "id": "id", "case_id": "case", "reader": "reader", "decision": "text", "comment": "text",
            "created": "time", "seconds": "real?", "run": "run?", "shown": "json", "stage": "text", "active": "int",
        },
    ),
    "assignments": Table(
        f"case_id IN ({_CASES})", {"case_id": "case", "reader": "reader", "by": "reader", "created": "time"}
    ),
    "findings": Table(
        f"case_id IN ({_CASES})",
        {
            "id": "id", "case_id": "case", "mask_version": "int?", "label": "text", "comment": "text",
            "box": "json?", "reader": "reader", "created": "time",
        },
    ),
    "undone": Table("study = :study", {"review_id": "review", "reader": "reader"}),
    "settings": Table(
        "key IN (" + ", ".join(f"'{name}:' || :study" for name in SETTINGS) + ")", {"key": "text", "value": "json"}
    ),
    "cluster_maps": Table(
        f"study = :study AND run IN ({_RUNS})",
        {
            "key": "map", "run": "run", "config": "json", "created": "time", "points": "int?", "epochs": "json?",
            "seconds": "real?",
        },
    ),
    "cluster_views": Table(
        "study = :study", {"name": "name", "reader": "reader", "created": "time", "state": "json"}
    ),
}  # fmt: skip
WITH_STUDY = ("cases", "runs", "evaluations", "undone", "cluster_maps", "cluster_views")  # have a column `study`
EVENTS = (*audit.SEALED, "hash")


# What a column of a bundle may hold: each value checked by its kind, references turned into new ids.

LONGEST = 16 << 20  # characters of one text


@dataclass
class Ids:
    """New ids by old ones, for one bundle."""

    study: str
    was: str
    files: Path  # where the study's images will lie
    taken: set[str]  # names of accounts here: a stranger's reader of that name is another person
    case: dict[int, int] = field(default_factory=dict)
    review: dict[int, int] = field(default_factory=dict)
    run: dict[str, str] = field(default_factory=dict)
    map: dict[str, str] = field(default_factory=dict)
    reader: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, tuple] = field(default_factory=dict)  # new case: (width, height)

    def name_of(self, reader: str) -> str:
        """Returns the name under which a reader's work is kept. It is no account, so nobody signs in by it."""
        if reader not in self.reader:
            self.reader[reader] = f"{reader[:64]} ({self.study})" if reader in self.taken else reader[:64]
        return self.reader[reader]

    def renamed(self, value: Any) -> Any:
        """Returns a JSON value in which runs and maps have their new ids."""
        if isinstance(value, dict):
            return {self.renamed(k): self.renamed(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.renamed(v) for v in value]
        return self.run.get(value) or self.map.get(value) or value if isinstance(value, str) else value


def checked(table: str, column: str, kind: str, value: Any, ids: Ids) -> Any:
    """Checks a value and returns it as it is stored here. Raises BadBundle if the column cannot hold it."""
    if value is None and kind.endswith("?"):
        return None
    try:
        return _KINDS[kind.rstrip("?")](value, ids)
    except BadBundle:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        if kind == "run?":  # of a run that was deleted
            return None
        raise BadBundle(f"the bundle's {table}.{column} holds what it cannot hold: {str(value)[:80]!r}") from None


def _whole(value: Any, ids: Ids) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _real(value: Any, ids: Ids) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return value if math.isfinite(value) else None


def _text(value: Any, ids: Ids) -> str:
    if not isinstance(value, str) or len(value) > LONGEST or "\0" in value:
        raise TypeError
    return value


def _name(value: Any, ids: Ids) -> str:
    text = "".join(c if c.isprintable() else " " for c in _text(value, ids)).strip()
    if not text:
        raise ValueError
    return text[:400]


def _time(value: Any, ids: Ids) -> str:
    datetime.fromisoformat(_text(value, ids).replace("Z", "+00:00"))
    return value


def _json(value: Any, ids: Ids) -> str:
    return json.dumps(ids.renamed(json.loads(_text(value, ids), parse_constant=lambda nan: None)))


def _blob(value: Any, ids: Ids) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError
    return value


def _file(value: Any, ids: Ids) -> str:
    """Where the image lies here, also of a file that the bundle lacks: nothing outside the study's folder is read."""
    parts = parts_of(_text(value, ids))
    if parts[0] != "images" or len(parts) != 3:
        raise ValueError
    return str(ids.files.joinpath(*parts[1:]))


_KINDS = {
    "id": lambda value, ids: value,
    "int": _whole,
    "real": _real,
    "text": _text,
    "name": _name,
    "time": _time,
    "json": _json,
    "blob": _blob,
    "file": _file,
    "case": lambda value, ids: ids.case[value],
    "review": lambda value, ids: ids.review[value],
    "run": lambda value, ids: ids.run[value],
    "map": lambda value, ids: _text(value, ids),
    "reader": lambda value, ids: ids.name_of(_name(value, ids)),
}
