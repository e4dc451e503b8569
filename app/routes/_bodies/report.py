"""The body of the report."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.routes._bodies.base import Body
from app.routes._types import Name, Seeds


class Report(Body):
    """tables: by name, none for all of them."""

    tables: Annotated[list[Name], Field(max_length=20)] = []
    seeds: Seeds = 2
    budget: Literal["quick", "paper"] = "quick"
    protocol: Literal["paper", "held-out"] = "paper"
