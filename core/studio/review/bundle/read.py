"""A bundle in: unpacked and checked in a folder of its own, then stored in one transaction, then moved into place."""

from __future__ import annotations

import errno
import json
import secrets
import shutil
import sqlite3
import struct
import zipfile
import zlib
from pathlib import Path

from core.studio.db import audit, leftovers
from core.studio.db.store import Store
from core.studio.ingest.studies import slug
from core.studio.review.bundle import maps, rows
from core.studio.review.bundle.foreign import keep_events
from core.studio.review.bundle.staging import ROWS, BadBundle, Limits, manifest_of, parts_of, safe_name, unpack
from core.studio.review.bundle.values import Ids
from core.studio.review.bundle.write import NOT_OF_THE_RUN
from core.studio.review.people import list_readers

_DAMAGE = (
    zipfile.BadZipFile, KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeError, sqlite3.DatabaseError,
    EOFError, NotImplementedError, RuntimeError, OSError, OverflowError, struct.error, zlib.error,
)  # fmt: skip
_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE)


def import_bundle(store: Store, source: Path, by: str, limits: Limits | None = None) -> dict:
    """Bring a bundle in; {"study", "rows": {table: n}, "readers": {name: name here}, "missing", "changed"}.

    missing: {"images": names of cases without an image, "maps": maps without files}; changed: names of cases whose
    image is not the one that was imported first. Raises BadBundle if the study is already here, or the file is
    damaged, too large, or holds what no bundle holds; the home is then as it was.
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
            counts = rows.store_rows(store, staged / ROWS, ids, _paths(manifest, staged))
            counts["events"] = keep_events(store, rows.read(staged / ROWS, "events"), mark)
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
    for number, row in enumerate(rows.read(staged / ROWS, "cases")):
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
