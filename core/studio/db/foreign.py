"""Validates the types, sizes and file names in content from other installations or programs.

A document format is a subclass of `Record`, whose fields define the valid values. `read` validates a document, and all
processing of foreign content happens within `refusing`. Names in foreign documents are never used as paths.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import re
import sqlite3
from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from annotated_types import Interval
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

from core.studio.db.store import is_full

LARGEST = 2**63 - 1  # largest integer in SQLite
DEEPEST, MOST_VALUES, LONGEST_TEXT = 32, 10_000_000, 16 << 20
MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE)

T = TypeVar("T")


class Refused(ValueError):
    """Raised if foreign content is invalid; the message states in one sentence what is wrong."""


def plain(text: str) -> str:
    """Returns `text` unchanged. Raises ValueError if it contains NUL or a lone surrogate, which cannot be stored."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("it is not valid text")
    return text


Text = Annotated[str, StringConstraints(max_length=LONGEST_TEXT), AfterValidator(plain)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=400), AfterValidator(plain)]
Number = Annotated[float, Interval(ge=-1e300, le=1e300)]  # finite
Integer = Annotated[int, Interval(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Interval(ge=0, le=LARGEST)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Record(BaseModel):
    """Base class of document formats and their nested records. Unknown keys and values of wrong types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def bounded(value: T, deepest: int = DEEPEST, most: int = MOST_VALUES, longest: int = LONGEST_TEXT) -> T:
    """Returns a JSON value unchanged after checking its nesting depth, number of values, text lengths and numbers.

    Raises ValueError if a limit is exceeded, or if the value contains NaN, infinity or a lone surrogate.
    """
    waiting: list[tuple[Any, int]] = [(value, 0)]
    count = 0
    while waiting:
        nested, depth = waiting.pop()
        count += 1
        if depth > deepest or count > most:
            raise ValueError("these settings are nested too deeply or too numerous")
        if isinstance(nested, dict):
            waiting += [(item, depth + 1) for pair in nested.items() for item in pair]
        elif isinstance(nested, (list, tuple)):
            waiting += [(item, depth + 1) for item in nested]
        elif isinstance(nested, str):
            if len(nested) > longest or any("\ud800" <= letter <= "\udfff" for letter in nested):
                raise ValueError("a text in these settings is too long or not valid")
        elif isinstance(nested, float) and not math.isfinite(nested):
            raise ValueError("a number in these settings is not finite")
        elif isinstance(nested, int) and abs(nested) > LARGEST:
            raise ValueError("a number in these settings is too large")
    return value


def read_json(text: str | bytes, what: str) -> Any:
    """Parses a JSON document and checks it with `bounded`. Raises Refused, naming it `what`, if it is invalid."""
    with refusing(what):
        return bounded(json.loads(text))


def read(kind: Any, value: Any, what: str) -> Any:
    """Validates a JSON value and returns it as a `kind`. Raises Refused, naming the value `what`, if it is invalid."""
    with refusing(what):
        return TypeAdapter(kind).validate_json(json.dumps(bounded(value)))


@contextlib.contextmanager
def refusing(what: str, kind: type[Refused] = Refused) -> Iterator[None]:
    """Converts errors that foreign content causes in the block to errors of type `kind`; `what` names the content.

    Errors of this machine (a full disk, a locked database, an interrupt) and the studio's own errors are not converted.
    """
    try:
        yield
    except ValidationError as error:
        raise kind(f"{what} cannot be used: {fault(error.errors()[0])}") from None
    except Exception as error:
        machine = getattr(error, "errno", None) in MACHINE or isinstance(error, sqlite3.OperationalError)
        if machine or is_full(error):
            raise
        if isinstance(error, ValueError) and type(error).__module__.startswith("core."):
            raise
        raise kind(f"{what} is damaged, or was not written by this program") from error


_KINDS = {  # pydantic's error types, and the value that each of them requires
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number", "float_type": "a number", "float_parsing": "a number",
    "finite_number": "a finite number", "bool_type": "true or false", "bool_parsing": "true or false",
    "string_type": "text", "string_unicode": "text", "list_type": "a list", "tuple_type": "a list",
    "dict_type": "a group of settings", "model_attributes_type": "a group of settings",
    "model_type": "a group of settings",
}  # fmt: skip


_SHOULD = re.compile(r"^(Input|String|List|Tuple|Dictionary|Data|Bytes|Value) should ")


def fault(problem: Any) -> str:
    """Describes one of pydantic's errors in plain words, such as "files.bytes must be a whole number"."""
    where = ".".join(str(step) for step in problem["loc"])[:200] or "it"
    kind, message = problem["type"], str(problem["msg"])
    if kind == "missing":
        return f"{where} is missing"
    if kind == "extra_forbidden":
        return f"{where} is unknown"
    if kind in _KINDS:
        return f"{where} must be {_KINDS[kind]}"
    if kind == "string_pattern_mismatch":
        return f"{where} does not have the required form"
    if (must := _SHOULD.sub("must ", message)) != message:
        return f"{where} {must}"
    return f"{where}: {message.removeprefix('Value error, ')}"


def parts_of(name: str) -> tuple[str, ...]:
    """Splits a file name in an archive into path components. Raises Refused if it could point outside a folder."""
    components = tuple(name.split("/"))
    bad = any(c in ("", ".", "..") or len(c.encode(errors="replace")) > 240 or not c.isprintable() for c in components)
    if bad or len(name) > 1000 or "\\" in name or ":" in components[0]:
        raise Refused(f"the archive contains a file with an unsafe name: {name[:200]!r}")
    return components


def safe_name(name: str) -> str:
    """Returns the last component of a path, changed where necessary so that `parts_of` accepts it."""
    safe = "".join(letter if letter.isprintable() else "_" for letter in name.replace("\\", "/").rpartition("/")[2])
    while len(safe.encode(errors="replace")) > 240:
        safe = safe[1:]  # shortened at the start, to keep the file extension
    return safe if safe not in ("", ".", "..") else "file"
