"""Modules of the middle floor that register themselves with a decorator, found by their text.

So a feature is added by adding its file, and asking for the registered parts does not import every module (and with
them torch or umap) that has nothing to register.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path


@functools.cache
def import_marked(decorator: str) -> None:
    """Import each module under core/studio in which a line starts with `@decorator(`."""
    root = Path(__file__).parent
    for file in sorted(root.rglob("*.py")):
        if f"\n@{decorator}(" in file.read_text(encoding="utf-8"):
            parts = file.relative_to(root).with_suffix("").parts
            importlib.import_module(".".join(("core", "studio", *parts)))
