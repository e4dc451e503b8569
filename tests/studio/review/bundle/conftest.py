"""A study that was read, its bundle, another home, and bundles as a stranger would write them."""

from __future__ import annotations

import json
import sqlite3
import zipfile

import pytest

from core.studio.db import opening
from core.studio.review import decisions, masks, people
from core.studio.review.exports.bundle import export_bundle
from core.studio.runs.records import run_folder
from tests.studio.review.conftest import asks, decide


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


def rewrite(source, target, rows=(), manifest=None, rename=(), extra=None, format=1):
    """A bundle as a stranger would send it: statements run on its rows, names and the list of contents changed.

    Of format 1 unless another is asked for, so that no list of hashes has to fit.
    """
    with zipfile.ZipFile(source) as good, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        listed = json.loads(good.read("manifest.json"))
        work = target.with_suffix(".sqlite")
        work.write_bytes(good.read("rows.sqlite"))
        db = sqlite3.connect(work)
        if format == 1:
            images = {f"/home/ann/{n}": n for n in listed.pop("files") if n.startswith("images/")}
            listed |= {"format": 1, "images": images}
            db.execute("UPDATE cases SET path = '/home/ann/' || path")
        for statement in rows:
            db.execute(statement)
        db.commit()
        db.close()
        text = json.dumps({**listed, **(manifest or {})})
        for old, new in rename:
            text = text.replace(old, new)
        for name in good.namelist():
            if name not in ("manifest.json", "rows.sqlite"):
                changed = name
                for old, new in rename:
                    changed = changed.replace(old, new)
                out.writestr(changed, good.read(name))
        for name, data in (extra or {}).items():
            out.writestr(name, data)
        out.write(work, "rows.sqlite")
        out.writestr("manifest.json", text)
    return target


@pytest.fixture
def sent(room, tmp_path):
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
