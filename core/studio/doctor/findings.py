"""Checks by name, and what they find:

@check("audit", "The audit trail's hash chain")
def audit(store) -> list[Finding]: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.studio.db.store import Store

LEVELS = ("ok", "note", "bad")


@dataclass(frozen=True)
class Finding:
    """level 'ok', 'note' (worth knowing) or 'bad' (do something about it); text says what."""

    level: str
    text: str


CHECKS: dict[str, tuple[str, Callable[[Store], list[Finding]]]] = {}


def check(name: str, title: str) -> Callable:
    """Decorator: register a check, which returns its findings."""

    def add(function):
        CHECKS[name] = (title, function)
        return function

    return add
