"""What nothing refers to goes once nothing writes to it any more; what is a study's stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.studio.db import backup, leftovers
from core.studio.ingest import copies
from core.studio.ingest.studies import import_study

ROOT = Path(__file__).resolve().parents[3]


def age(path, hours: float) -> None:
    when = time.time() - hours * 3600
    for one in (path, *path.rglob("*")):
        os.utime(one, (when, when))


def test_leftovers_go_by_their_age(store, tiny_folder):
    home = store.home
    import_study(store, "tiny", tiny_folder, copy=True, size=32)
    left = [home.files / "gone", home.cache / "tmpabc", home.path / "bundle-x"]
    drops = [home.cache / "dropped" / "a", home.cache / "dropped" / "b"]
    for folder in (*left, *drops):
        folder.mkdir(parents=True)
        (folder / "half").write_bytes(b"x")
    assert leftovers.sweep(store) == []
    for folder in (*left, drops[0], home.files / "tiny"):
        age(folder, 2)
    age(drops[1], 25)
    assert sorted(leftovers.sweep(store)) == sorted([*(f.name for f in left), "b"])
    assert drops[0].exists() and len(list((home.files / "tiny").rglob("*.png"))) == 36
    assert (next(home.cache.glob("tiny/32-*")) / "meta.json").exists()


def test_files_from_a_time_to_come_are_new_and_go_when_all_shall(home, store):
    """As after the machine's clock was set back."""
    (home.files / "gone").mkdir(parents=True)
    age(home.files / "gone", -2)
    assert leftovers.sweep(store) == []
    assert leftovers.sweep(store, older=0) == ["gone"]


HOLDING = """
import sys, time
from pathlib import Path
from core.studio.db import leftovers
made = leftovers.begin(Path(sys.argv[1]), "bundle-")
(made / "half").write_bytes(b"x")
print(made, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_what_a_killed_process_held_goes_at_once_and_what_one_holds_stays(store):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(store.home.path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    made = Path(child.stdout.readline().strip())
    try:
        age(made, 2)
        assert leftovers.sweep(store) == [] and made.is_dir()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert leftovers.sweep(store) == [made.name]


def test_a_half_made_backup_goes_and_one_at_work_stays(store, monkeypatch):
    left = store.home.backups / ".making-x"
    (left / "copy").mkdir(parents=True)
    (left / "copy" / "database.partial").write_bytes(b"x")
    seen = []

    def described(partial, *args, **options):
        leftovers.sweep(store, older=0)
        seen.append((left.exists(), partial.exists()))
        return real(partial, *args, **options)

    real = backup._described
    monkeypatch.setattr(backup, "_described", described)
    made = backup.backup(store.home)
    assert seen == [(False, True)] and backup.check(store.home.backups / made.file)
    assert len(list(store.home.backups.iterdir())) == 2


def test_a_copy_at_work_is_not_swept(store, tiny_folder, monkeypatch):
    def copy(source, place):
        assert leftovers.sweep(store, older=0) == [] == copies.sweep(store)
        return real(source, place)

    real = copies.files.copy
    monkeypatch.setattr(copies.files, "copy", copy)
    assert import_study(store, "tiny", tiny_folder, copy=True).accepted == 36
    assert len(list((store.home.files / "tiny").rglob("*.png"))) == 36
    assert leftovers.sweep(store, older=0) == []
