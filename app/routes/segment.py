"""Routes that make lesion masks from a reader's clicks, a box or a region of the heat map, without storing them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field, StringConstraints

from app.access.permissions import Reader, Studio
from app.routes import _pixels as pixels
from app.routes._types import Answer, Body, Finite, Id, Int, Name, binary
from core.studio.ingest.originals import Source
from core.studio.review import boxes
from core.studio.review.masks import segment

router = APIRouter(prefix="/api/review", tags=["review"])
Window = tuple[Int, Int, Int, Int]  # x0, y0, x1, y1
Bits = Annotated[str, StringConstraints(max_length=32 << 20)]  # base64 of one bit per pixel


class Clicks(Body):
    """Clicks from which to make a mask.

    clicks: For each click, x and y in pixels of the image, and whether this position belongs to the lesion.
    window: Visible part of the image (x0, y0, x1, y1), or null for the whole image.
    start: Mask to correct, as base64 of the format of mask.bits; "" to grow a new region from the clicks.
    """

    run: Name = ""
    clicks: Annotated[list[tuple[Finite, Finite, bool]], Field(max_length=200)] = []
    window: Window | None = None
    start: Bits = ""


class InBox(Body):
    """Box around a lesion (x0, y0, x1, y1 in pixels of the image), and the visible part of the image (`window`)."""

    box: tuple[Finite, Finite, Finite, Finite]
    window: Window | None = None


class AtSpot(Body):
    """Region of the heat map at `spot` (x, y in pixels), outlined at the heat value `level` (null: the run's level)."""

    run: Name
    spot: tuple[Finite, Finite]
    level: Finite | None = None
    window: Window | None = None


class NextCases(Body):
    """Cases that will probably be viewed next, in that order."""

    cases: Annotated[list[Id], Field(max_length=8)]


class BoxesThere(Answer):
    """Whether masks can be made from boxes. `missing` states what must be installed first, or is null."""

    missing: str | None


def _answer(mask: np.ndarray) -> Response:
    head, bits = pixels.bits(mask)
    head["Cache-Control"] = "no-store"
    return Response(bits, media_type="application/octet-stream", headers=head)


@router.post("/segment/{case_id}", **binary("application/octet-stream"))
def found(ctx: Studio, who: Reader, request: Request, case_id: Id, body: Clicks):
    """Makes a mask from clicks and returns it in the format of mask.bits, without storing it.

    If there are no clicks, the mask is empty and the image is prepared for later clicks.
    """
    with ctx.reading(request, number=case_id, run=body.run) as context:
        context.demand_open()
    case = context.asked_case
    start = _mask_of(body.start, case) if body.start else None
    return _answer(pixels.readable(lambda: segment(ctx.store(), case, body.run, body.clicks, body.window, start)))


def _mask_of(start: str, case: dict) -> np.ndarray:
    """Decodes base64 to a mask bool (H, W). Raises ValueError if the mask does not have the image's size."""
    try:
        bits = base64.b64decode(start, validate=True)
    except binascii.Error:
        bits = b""
    return pixels.of_bits(case, bits) > 0


@router.post("/box/{case_id}", **binary("application/octet-stream"))
def in_box(ctx: Studio, who: Reader, request: Request, case_id: Id, body: InBox):
    """Returns the mask of the lesion in a box, in the format of mask.bits."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
    case = context.asked_case
    return _answer(pixels.readable(lambda: boxes.in_box(case, body.box, body.window)))


@router.post("/snap/{case_id}", **binary("application/octet-stream"))
def under(ctx: Studio, who: Reader, request: Request, case_id: Id, body: AtSpot):
    """Returns the mask of the lesion that the heat map shows at a position, in the format of mask.bits."""
    with ctx.reading(request, number=case_id, run=body.run) as context:
        context.demand_open()
    case, store = context.asked_case, ctx.store()
    return _answer(pixels.readable(lambda: boxes.segment_at(store, case, body.run, body.spot, body.level, body.window)))


@router.post("/boxes", response_model=BoxesThere)
def ahead(ctx: Studio, who: Reader, request: Request, body: NextCases):
    """Prepares the next cases for masks from boxes. The answer reveals nothing about the cases."""
    missing = boxes.missing()
    sources = []
    for case_id in body.cases if missing is None else []:
        with ctx.reading(request, number=case_id) as context:
            sources.append(Source.of(context.asked_case))
    boxes.EMBEDDINGS.ahead(sources)
    return {"ok": True, "missing": missing}
