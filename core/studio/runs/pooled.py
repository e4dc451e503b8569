"""Pooled features of a study's images, cached on disk, so that scored images need not be encoded again."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np

from core.engine import files
from core.engine.rows import Rows
from core.studio.db.store import Store
from core.studio.ingest.cache import erasures

MOST = 10_000  # images per encoder; their features take 26 MB for EfficientNet-lite0
ENCODERS = 4  # number of encoders whose features are kept
KEY = 16  # bytes in an image's digest


@contextlib.contextmanager
def kept(store: Store, study: str, only: Rows | None = None) -> Iterator[None]:
    """Context manager that caches the pooled features of a study's images that are encoded inside the `with` block.

    only: Images uint8 (N, S, S, 3) whose features are cached. Defaults to all images that are encoded.
    """
    from core.engine.backbones.embed import Features, caching_features, digest  # imports torch, which the page lacks

    file, before = store.home.cache / study / "pooled.npz", erasures(store)
    images: Container[bytes] | None = None if only is None else {digest(only[i]) for i in range(min(len(only), MOST))}
    features = Features(MOST, images)
    features.kept = _read(file)
    with caching_features(features):
        yield
    if not features.added:
        return
    with files.replacing(file) as draft:
        meanwhile = _read(file)  # other jobs may have added features
        _write(draft, meanwhile | {e: meanwhile.get(e, {}) | rows for e, rows in features.kept.items()})
    if erasures(store) != before:  # a patient in the features may have been erased meanwhile
        file.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, dict[bytes, np.ndarray]]:
    """Reads the features by encoder and image digest, {} if the file is missing or damaged."""
    try:
        with np.load(file) as stored:
            encoders = [name.removeprefix("of-") for name in stored.files if name.startswith("of-")]
            return {e: dict(zip(_keys(stored[e]), stored[f"of-{e}"], strict=True)) for e in encoders}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}


def _keys(stored: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in stored]


def _write(file: Path, features: dict[str, dict[bytes, np.ndarray]]) -> None:
    arrays = {}
    for encoder in [e for e, rows in features.items() if rows][-ENCODERS:]:
        arrays[f"of-{encoder}"] = np.stack(list(features[encoder].values()))
        arrays[encoder] = np.frombuffer(b"".join(features[encoder]), np.uint8).reshape(-1, KEY)
    np.savez(file, **arrays)  # type: ignore[arg-type]
