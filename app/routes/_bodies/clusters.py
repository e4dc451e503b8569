"""Bodies of cluster maps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.routes._bodies.base import Body
from app.routes._types import Id, Line, Name, Settings


class ClusterMap(Body):
    run: Name
    config: Settings


class Points(Body):
    points: Annotated[list[Id], Field(max_length=200_000)]


class Tag(Points):
    tag: Name
    remove: bool = False


class View(Body):
    study: Name
    name: Name
    state: Settings


class Projection(Body):
    """folder (administrators), or study: those of its cases that are not on the map."""

    folder: Line = ""
    study: Name = ""
