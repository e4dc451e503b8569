"""Masks from a reader's clicks, a box or a blob of the heat map; none of them is stored.

See core/studio/review/masks.py (clicks) and core/studio/review/boxes.py (boxes and blobs).
"""

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
Window = tuple[Int, Int, Int, Int]  # x0, y0, x1, y1 of the visible part
Bits = Annotated[str, StringConstraints(max_length=32 << 20)]  # base64 of one bit a pixel


class Clicks(Body):
    """Clicks that ask for a mask.

    clicks: (x, y, whether positive) in the image's pixels. window: x0, y0, x1, y1 of the visible part; None for all of
    it. start: the mask to correct, as base64 of mask.bits; with "" the clicks grow a new region.
    """

    run: Name = ""
    clicks: Annotated[list[tuple[Finite, Finite, bool]], Field(max_length=200)] = []
    window: Window | None = None
    start: Bits = ""


class InBox(Body):
    """A box round a lesion. box: x0, y0, x1, y1 in the image's pixels."""

    box: tuple[Finite, Finite, Finite, Finite]
    window: Window | None = None


class AtSpot(Body):
    """A spot of the heat map.

    spot: x, y in the image's pixels. level: heat value of the outline on screen; None for the run's own outline.
    """

    run: Name
    spot: tuple[Finite, Finite]
    level: Finite | None = None
    window: Window | None = None


class Coming(Body):
    """Cases that will probably be viewed next, in order."""

    cases: Annotated[list[Id], Field(max_length=8)]


class BoxesThere(Answer):
    """Whether masks can be made from boxes. missing: what to install for it; null if nothing is missing."""

    missing: str | None


def _answer(mask: np.ndarray) -> Response:
    head, bits = pixels.bits(mask)
    head["Cache-Control"] = "no-store"
    return Response(bits, media_type="application/octet-stream", headers=head)


@router.post("/segment/{case_id}", **binary("application/octet-stream"))
def found(ctx: Studio, who: Reader, request: Request, case_id: Id, body: Clicks):
    """Return the mask for the clicks, one bit a pixel, in the format of mask.bits; nothing is stored.

    Without clicks the image is prepared for them, and the mask is empty.
    """
    with ctx.reading(request, number=case_id, run=body.run) as context:
        context.demand_open()
    case = context.asked_case
    start = _mask_of(body.start, case) if body.start else None
    return _answer(pixels.readable(lambda: segment(ctx.store(), case, body.run, body.clicks, body.window, start)))


def _mask_of(start: str, case: dict) -> np.ndarray:
    """Decodes base64 to bool (H, W). Raises ValueError if the size is not the image's."""
    try:
        bits = base64.b64decode(start, validate=True)
    except binascii.Error:
        bits = b""
    return pixels.of_bits(case, bits) > 0


@router.post("/box/{case_id}", **binary("application/octet-stream"))
def in_box(ctx: Studio, who: Reader, request: Request, case_id: Id, body: InBox):
    """Return the mask of the lesion in a box, in the format of mask.bits."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
    case = context.asked_case
    return _answer(pixels.readable(lambda: boxes.in_box(case, body.box, body.window)))


@router.post("/snap/{case_id}", **binary("application/octet-stream"))
def under(ctx: Studio, who: Reader, request: Request, case_id: Id, body: AtSpot):
    """Return the mask of the lesion that the heat map shows at a spot, in the format of mask.bits."""
    with ctx.reading(request, number=case_id, run=body.run) as context:
        context.demand_open()
    case, store = context.asked_case, ctx.store()
    return _answer(pixels.readable(lambda: boxes.under(store, case, body.run, body.spot, body.level, body.window)))


@router.post("/boxes", response_model=BoxesThere)
def ahead(ctx: Studio, who: Reader, request: Request, body: Coming):
    """Compute embeddings of the next cases in advance, for masks from boxes; the answer reveals nothing about them."""
    missing = boxes.missing()
    sources = []
    for case_id in body.cases if missing is None else []:
        with ctx.reading(request, number=case_id) as context:
            sources.append(Source.of(context.asked_case))
    boxes.EMBEDDINGS.ahead(sources)
    return {"ok": True, "missing": missing}
