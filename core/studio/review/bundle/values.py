"""What a column of a bundle may hold: each value checked by its kind, references turned into new ids."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from core.studio.review.bundle.staging import BadBundle, parts_of

LONGEST = 16 << 20  # characters of one text


@dataclass
class Ids:
    """New ids by old ones, for one bundle."""

    study: str
    was: str
    files: Path  # where the study's images will lie
    taken: set[str]  # names of accounts here: a stranger's reader of that name is another person
    case: dict[int, int] = field(default_factory=dict)
    review: dict[int, int] = field(default_factory=dict)
    run: dict[str, str] = field(default_factory=dict)
    map: dict[str, str] = field(default_factory=dict)
    reader: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, tuple] = field(default_factory=dict)  # new case: (width, height)

    def name_of(self, reader: str) -> str:
        """The name under which a reader's work is kept. It is no account, so nobody signs in by it."""
        if reader not in self.reader:
            self.reader[reader] = f"{reader[:64]} ({self.study})" if reader in self.taken else reader[:64]
        return self.reader[reader]

    def renamed(self, value: Any) -> Any:
        """A JSON value in which runs and maps have their new ids."""
        if isinstance(value, dict):
            return {self.renamed(k): self.renamed(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.renamed(v) for v in value]
        return self.run.get(value) or self.map.get(value) or value if isinstance(value, str) else value


def checked(table: str, column: str, kind: str, value: Any, ids: Ids) -> Any:
    """The value as it is stored here. Raises BadBundle if the column cannot hold it."""
    if value is None and kind.endswith("?"):
        return None
    try:
        return _KINDS[kind.rstrip("?")](value, ids)
    except BadBundle:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        if kind == "run?":  # of a run that was deleted
            return None
        raise BadBundle(f"the bundle's {table}.{column} holds what it cannot hold: {str(value)[:80]!r}") from None


def _whole(value: Any, ids: Ids) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _real(value: Any, ids: Ids) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return value if math.isfinite(value) else None


def _text(value: Any, ids: Ids) -> str:
    if not isinstance(value, str) or len(value) > LONGEST or "\0" in value:
        raise TypeError
    return value


def _name(value: Any, ids: Ids) -> str:
    text = "".join(c if c.isprintable() else " " for c in _text(value, ids)).strip()
    if not text:
        raise ValueError
    return text[:400]


def _time(value: Any, ids: Ids) -> str:
    datetime.fromisoformat(_text(value, ids).replace("Z", "+00:00"))
    return value


def _json(value: Any, ids: Ids) -> str:
    return json.dumps(ids.renamed(json.loads(_text(value, ids), parse_constant=lambda nan: None)))


def _blob(value: Any, ids: Ids) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError
    return value


def _file(value: Any, ids: Ids) -> str:
    """Where the image lies here, also of a file that the bundle lacks: nothing outside the study's folder is read."""
    parts = parts_of(_text(value, ids))
    if parts[0] != "images" or len(parts) != 3:
        raise ValueError
    return str(ids.files.joinpath(*parts[1:]))


_KINDS = {
    "id": lambda value, ids: value,
    "int": _whole,
    "real": _real,
    "text": _text,
    "name": _name,
    "time": _time,
    "json": _json,
    "blob": _blob,
    "file": _file,
    "case": lambda value, ids: ids.case[value],
    "review": lambda value, ids: ids.review[value],
    "run": lambda value, ids: ids.run[value],
    "map": lambda value, ids: _text(value, ids),
    "reader": lambda value, ids: ids.name_of(_name(value, ids)),
}
