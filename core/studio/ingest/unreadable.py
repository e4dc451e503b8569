"""The one way in which a file is refused."""

from __future__ import annotations

MEGAPIXELS = 150  # a whole endoscopy frame is 2, a fundus photograph 12, a mammogram 20


class Unreadable(ValueError):
    """A file that cannot be imported; the message is the reason, for the report."""


def limit(width: int, height: int) -> None:
    """Raises Unreadable if a picture of this size should not be decoded."""
    if width < 1 or height < 1:
        raise Unreadable(f"it has no pixels ({width} x {height})")
    if width * height > MEGAPIXELS * 1_000_000:
        raise Unreadable(f"its header says {width} x {height} pixels; at most {MEGAPIXELS} megapixels are decoded")
