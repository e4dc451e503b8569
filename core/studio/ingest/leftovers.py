"""What an import that was killed leaves: copies without a study, half-made arrays. Nobody refers to them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from core.studio.db.store import Store

OLD = 3600.0  # seconds: an import that is at work has written something since


def sweep(store: Store, older: float = OLD) -> list[str]:
    """Remove what nothing refers to and nothing has written to for so many seconds; the names of what went."""
    studies = {row["id"] for row in store.query("SELECT id FROM studies")}
    home = store.home
    copies = [folder for folder in home.files.iterdir() if folder.is_dir() and folder.name not in studies]
    partial = [*home.cache.glob("*/*.partial"), *home.cache.glob("tmp*"), *home.path.glob("bundle-*")]
    uploads = list(home.cache.glob("dropped/*"))  # whose page may be open the whole day
    gone = []
    for path in [*copies, *partial, *uploads]:
        age = max(0.0, time.time() - _last_written(path))  # a clock that was set back makes times to come
        if age < older * (24 if path in uploads else 1):
            continue
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        gone.append(path.name)
    return gone


def _last_written(path: Path) -> float:
    times = [path.stat().st_mtime]
    for inside in path.rglob("*"):
        try:
            times.append(inside.stat().st_mtime)
        except OSError:  # it has just gone
            continue
    return max(times)
