"""Click-to-segment: the region that a reader's clicks ask for. See core/studio/review/masks.py."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.access.permissions import Reader, Studio
from app.routes import _pixels as pixels
from app.routes._types import Body, Finite, Id, Int, Name, binary
from core.studio.review.masks import segment

router = APIRouter(prefix="/api/review", tags=["review"])


class Clicks(Body):
    """clicks: x, y in the image's pixels, positive. window: x0, y0, x1, y1 of what is in sight; None for all of it."""

    run: Name = ""
    clicks: Annotated[list[tuple[Finite, Finite, bool]], Field(max_length=200)] = []
    window: tuple[Int, Int, Int, Int] | None = None


@router.post("/segment/{case_id}", **binary("application/octet-stream"))
def found(ctx: Studio, who: Reader, request: Request, case_id: Id, body: Clicks):
    """One bit a pixel, as mask.bits has them; nothing is stored. Without clicks: made ready for them, and empty."""
    with ctx.reading(request, number=case_id, run=body.run) as context:
        context.demand_seen()
    case = context.asked_case
    mask = pixels.readable(lambda: segment(ctx.store(), case, body.run, body.clicks, body.window))
    head, bits = pixels.bits(mask)
    head["Cache-Control"] = "no-store"
    return Response(bits, media_type="application/octet-stream", headers=head)
