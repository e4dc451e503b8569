"""A bundle's zip is unpacked into a folder of its own, every byte counted and hashed, before anything is believed."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

FORMATS = (1, 2)  # 1: without a list of hashes
ROWS = "rows.sqlite"
MANIFEST = "manifest.json"
FOLDERS = ("images", "runs", "clusters")
BLOCK = 1 << 20


class BadBundle(ValueError):
    """A file that is no bundle, or one that cannot be brought into this home; the message says why."""


@dataclass(frozen=True)
class Limits:
    """The largest bundle that is unpacked."""

    entries: int = 1_000_000
    bytes: int = 1 << 40
    ratio: int = 20  # unpacked bytes for each byte of the zip: images and heat maps are compressed already
    always: int = 64 << 20  # unpacked bytes that are allowed whatever the ratio
    manifest: int = 256 << 20
    spare: int = 1 << 30  # bytes that stay free on the disk


def parts_of(name: str) -> tuple[str, ...]:
    """A name inside the bundle as its parts. Raises BadBundle if it could lead out of its folder."""
    parts = tuple(name.split("/"))
    bad = any(p in ("", ".", "..") or len(p.encode()) > 240 or not p.isprintable() for p in parts)
    if bad or len(name) > 1000 or "\\" in name or ":" in parts[0]:
        raise BadBundle(f"the bundle names a file outside itself: {name[:200]!r}")
    return parts


def safe_name(name: str) -> str:
    """The last part of any path as a name that `parts_of` takes."""
    last = PurePosixPath(name.replace("\\", "/")).name
    kept = "".join(c if c.isprintable() else "_" for c in last)
    while len(kept.encode()) > 240:
        kept = kept[1:]  # the suffix is kept
    return kept if kept not in ("", ".", "..") else "file"


def manifest_of(bundle: zipfile.ZipFile, limits: Limits) -> dict[str, Any]:
    """The bundle's manifest. Raises BadBundle if there is none, or one of another format."""
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
    """Unpack into `folder`; {name: sha256}. Raises BadBundle if a limit is passed or a hash is not the listed one."""
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
