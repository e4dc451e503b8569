"""Numbers, texts and settings as requests may hold them: bounded, finite, writable as UTF-8."""

from __future__ import annotations

import math
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError

LARGEST = 2**63 - 1  # that SQLite holds
DEEPEST, MOST_VALUES, LONGEST_TEXT = 8, 20_000, 100_000


def _clean(values: dict[str, Any]) -> dict[str, Any]:
    """The settings, if they are finite, of a sensible size, and can be written as UTF-8. Raises ValueError if not."""
    waiting: list[tuple[Any, int]] = [(values, 0)]
    count = 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > DEEPEST or count > MOST_VALUES:
            raise ValueError("these settings are nested too deeply, or too many")
        if isinstance(value, dict):
            waiting += [(one, depth + 1) for pair in value.items() for one in pair]
        elif isinstance(value, list):
            waiting += [(one, depth + 1) for one in value]
        elif isinstance(value, str):
            if len(value) > LONGEST_TEXT or any("\ud800" <= c <= "\udfff" for c in value):
                raise ValueError("a text among these settings is too long, or is no text")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number among these settings is not finite")
        elif isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError("a number among these settings is too large")
    return values


Id = Annotated[int, Interval(ge=0, le=LARGEST)]
Int = Annotated[int, Interval(ge=-LARGEST, le=LARGEST)]
Seeds = Annotated[int, Interval(ge=1, le=20)]
Finite = Annotated[float, Interval(ge=-1e300, le=1e300)]
Side = Annotated[int, Interval(ge=0, le=100_000)]  # pixels
Name = Annotated[str, StringConstraints(max_length=300)]
Line = Annotated[str, StringConstraints(max_length=4096)]  # a path, a note
Settings = Annotated[dict[str, Any], AfterValidator(_clean)]


_CURSOR: TypeAdapter[tuple[Id, str | int | float | None, Id]] = TypeAdapter(tuple[Id, str | int | float | None, Id])


def read_cursor(text: str) -> tuple:
    """Where a page of the worklist ended: (part, value, case id) from JSON. Raises ValueError for another text."""
    try:
        return _CURSOR.validate_json(text)
    except ValidationError:
        raise ValueError("The list's cursor is none of this list; reload the page.") from None
