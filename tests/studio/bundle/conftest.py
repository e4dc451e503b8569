"""A study that was read, its bundle, another home, and bundles as a stranger would write them."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zipfile

import pytest

from core.studio.bundle import export_bundle
from core.studio.db import opening
from core.studio.review import decisions, masks, people
from core.studio.runs.records import run_folder
from tests.studio.clusters.conftest import world  # noqa: F401
from tests.studio.review.conftest import asks, bare, decide, room  # noqa: F401


def use(store, run):
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id")]
    for i in ids[:5]:
        decide(store, i, "ann", "abnormal", comment="ü", run=run, shown={"heat": True, "run": run})
    decisions.undo(asks(store, "ann", study="room"))
    people.assign(store, "room", ["ann", "ben"], "root")
    mask = store.one("SELECT id, case_id FROM lesion_masks")
    masks.restore(asks(store, case_id=mask["case_id"]), mask["id"])
    (run_folder(store, run) / "weights.bin").write_bytes(bytes(range(256)))


def files_of(home) -> set[str]:
    """Every file of a home but the database's own."""
    return {str(f.relative_to(home.path)) for f in home.path.rglob("*") if f.is_file() and "sqlite" not in f.name}


def rewrite(source, target, rows=(), manifest=None, rename=(), extra=None):
    """A bundle as a stranger would send it: statements run on its rows, names and the list of contents changed.

    The list of hashes fits. extra: files that are added, or put in place of others: {name: bytes}.
    """
    with zipfile.ZipFile(source) as good:
        listed = json.loads(good.read("manifest.json"))
        entries = {name: good.read(name) for name in good.namelist() if name != "manifest.json"}
    work = target.with_suffix(".sqlite")
    work.write_bytes(entries["rows.sqlite"])
    db = sqlite3.connect(work)
    for statement in rows:
        db.execute(*([statement] if isinstance(statement, str) else statement))
    db.commit()
    db.close()
    entries |= {"rows.sqlite": work.read_bytes()} | (extra or {})
    for old, new in rename:
        entries = {name.replace(old, new): data for name, data in entries.items()}
    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in entries.items()}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in entries.items():
            out.writestr(name, data)
        out.writestr("manifest.json", json.dumps({**listed, "files": files, **(manifest or {})}))
    return target


@pytest.fixture
def sent(room, tmp_path):  # noqa: F811
    """(store, run, bundle) of a study that was read."""
    store, run = room
    use(store, run)
    export_bundle(store, "room", tmp_path / "room.zip", "root")
    return store, run, tmp_path / "room.zip"


@pytest.fixture
def other(tmp_path):
    store = opening.open(str(tmp_path / "other"))
    yield store
    store.close()
