"""A disk that fills up in the middle of an import: nothing half-made is left, neither files nor rows."""

from __future__ import annotations

import errno
import shutil

import pytest

from core.studio.ingest import studies
from tests.conftest import picture, write

COPY = shutil.copy2


@pytest.fixture
def fills_up(monkeypatch):
    """fills_up(after): the disk is full in the middle of the copy that follows so many."""

    def after(count: int):
        done = []

        def copy2(source, target):
            if len(done) == count:
                target.write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device", str(target))
            done.append(COPY(source, target))

        monkeypatch.setattr(shutil, "copy2", copy2)

    return after


def files(store):
    return sorted(p for p in store.home.files.rglob("*"))


@pytest.mark.parametrize("count", [0, 7])
def test_an_import_leaves_nothing(store, tiny_folder, fills_up, count):
    fills_up(count)
    with pytest.raises(OSError, match="No space left"):
        studies.import_study(store, "tiny", tiny_folder, copy=True)
    assert files(store) == [] and store.query("SELECT id FROM studies") == []
    fills_up(1000)
    assert studies.import_study(store, "tiny", tiny_folder, copy=True).accepted == 36


def test_rows_that_cannot_be_written_take_their_copies_with_them(store, tiny_folder, monkeypatch):
    monkeypatch.setattr(studies, "_insert", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        studies.import_study(store, "tiny", tiny_folder, copy=True)
    assert files(store) == []


def test_what_is_added_goes_alone(store, tiny_folder, fills_up, tmp_path):
    studies.import_study(store, "tiny", tiny_folder, copy=True)
    before, cases = files(store), store.query("SELECT * FROM cases")
    new = [write(tmp_path / "more" / f"{i}.png", picture(500 + i)[0]) for i in range(4)]
    fills_up(2)
    with pytest.raises(OSError, match="No space left"):
        studies.add_cases(store, "tiny", new, copy=True)
    assert files(store) == before and store.query("SELECT * FROM cases") == cases
