"""Readers' findings on a case: a label on the whole image, at a point or in a box. With a mask: masks.py."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from app.access.permissions import Reader, Studio
from app.routes._shared import Rectangle
from app.routes._types import Answer, Body, Finite, Id, Line, Name, Part
from core.studio.review import decisions

router = APIRouter(prefix="/api/review", tags=["review"])


class NewFinding(Body):
    """A finding to add to a case.

    box: x0, y0, x1, y1 in pixels of the image; for a point both corners are equal. rating: 0 to 100, in a trial.
    """

    case: Id
    label: Name
    comment: Line = ""
    box: Annotated[list[Finite], Field(min_length=4, max_length=4)] | None = None
    rating: Finite | None = None


class Finding(Part):
    """A finding on a case. box: in pixels of the image; for a point both corners are equal."""

    id: int
    label: str
    comment: str
    reader: str
    created: str
    mask_version: int | None
    box: Rectangle | None


class Findings(Answer):
    findings: list[Finding]


@router.post("/finding", response_model=Findings)
def add(ctx: Studio, who: Reader, request: Request, body: NewFinding):
    """Add a finding to a case."""
    box = (body.box[0], body.box[1], body.box[2], body.box[3]) if body.box else None
    with ctx.writing(request, number=body.case) as context:
        context.demand_marks()
        decisions.add_finding(context, body.label, body.comment, box=box, rating=body.rating)
        return {"ok": True, "findings": decisions.findings_of(context, context.asked_case["id"])}


@router.delete("/finding/{finding}", response_model=Findings)
def remove(ctx: Studio, who: Reader, request: Request, finding: Id):
    """Remove one's own finding."""
    case = decisions.case_of_finding(ctx.store(), finding, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_marks()
        decisions.remove_finding(context, finding)
        return {"ok": True, "findings": decisions.findings_of(context, case)}
