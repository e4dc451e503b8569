"""Which detector is shown first where several have scored."""

from __future__ import annotations

PREFERRED = ("blend", "lesion-head")


def preference(method: str) -> int:
    """Place of a detector in PREFERRED, from 0; those that are not of it come last and are equal."""
    return PREFERRED.index(method) if method in PREFERRED else len(PREFERRED)
