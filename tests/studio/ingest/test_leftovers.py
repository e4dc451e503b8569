"""What nothing refers to goes once nothing writes to it any more; what is a study's stays."""

from __future__ import annotations

import os
import time

from core.studio.ingest import leftovers
from core.studio.ingest.studies import import_study


def age(path, hours: float) -> None:
    when = time.time() - hours * 3600
    for one in (path, *path.rglob("*")):
        os.utime(one, (when, when))


def test_leftovers_go_by_their_age(store, tiny_folder):
    home = store.home
    import_study(store, "tiny", tiny_folder, copy=True, size=32)
    left = [home.files / "gone", home.cache / "tiny" / "32-x.1.partial", home.cache / "tmpabc", home.path / "bundle-x"]
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
