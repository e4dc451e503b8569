"""The checks by name, and the findings that they return:

@check("audit", "The audit trail's hash chain")
def audit(store) -> list[Finding]: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.studio.db.store import Store


@dataclass(frozen=True)
class Finding:
    """A result of a check. level: 'ok', 'note' (for information) or 'bad' (needs action). text: what was found."""

    level: str
    text: str


CHECKS: dict[str, tuple[str, Callable[[Store], list[Finding]]]] = {}


def check(name: str, title: str) -> Callable:
    """Registers the decorated function as a check; it takes the store and returns its findings."""

    def add(function):
        CHECKS[name] = (title, function)
        return function

    return add
