"""Bodies of studies: import, cases, watched folders, labels, who reads what."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Interval
from pydantic import Field

from app.routes._bodies.base import Body
from app.routes._types import Line, Name


class Import(Body):
    """folder, or drop: the token of an upload. keep: copy the images. per_second: frames taken from recordings.

    patient_letters: so many first characters of a file's name are its patient; 0: the name does not say.
    """

    folder: Line = ""
    name: Name = ""
    keep: bool = False
    drop: Name | None = None
    per_second: float = 1.0
    patient_letters: int = Field(default=0, ge=0, le=100)


class Add(Body):
    """path, or drop: the token of an upload."""

    path: Line = ""
    drop: Name | None = None
    keep: bool = False
    per_second: float | None = None


class Watch(Body):
    """run: "" for the one that Review opens with."""

    folder: Line | None = ""
    run: Name | None = ""
    active: bool = True
    copies: bool = Field(False, alias="copy")


class Labels(Body):
    labels: Annotated[list[Name], Field(max_length=200)]


class Kind(Body):
    kind: Name


class Assign(Body):
    """per_case: 2 for double reading."""

    readers: Annotated[list[Name], Field(max_length=1000)]
    per_case: Annotated[int, Interval(ge=1, le=1000)] = 1


class Unassign(Body):
    reader: Name
