"""Pictures of one case: image, thumbnail, lesion mask, heat map, region of interest. All lossless, with an ETag.

In a study that is read blind, a case's heat map and masks are refused until the reader has decided on it.
"""

from __future__ import annotations

import json
import zlib

from fastapi import APIRouter, Request, Response

from app.access.permissions import Reader, Studio
from app.context import Context
from app.routes import _pixels as pixels
from app.routes._shared import Rectangle
from app.routes._types import Answer, Id, Name, Part, Side, binary
from core.studio.ingest.originals import Source
from core.studio.review import masks
from core.studio.review.cases import map_of
from core.studio.review.context import RequestContext
from core.studio.runs import explained
from core.studio.runs.readings import outline_level, pixel_scale, unpack_not_judged
from core.studio.runs.records import get_run

router = APIRouter(prefix="/api/case/{case_id}", tags=["cases"])
GRID = 512  # side of the grid on which the page finds contours and regions
KEEP = "private, max-age=86400, immutable"  # for addresses that carry a version of the content (?v=)
ASK = "private, no-cache"


class PictureOfCase(Part):
    id: int
    name: str
    v: str
    width: int
    height: int
    bits: int | None


class NearestCase(PictureOfCase):
    distance: float


class NearestCases(Answer):
    cases: list[NearestCase]


class UsualDistance(Part):
    median: float
    largest: float
    count: int


class Explained(Answer):
    """The patch of a case that a run finds most abnormal, and the normal patch most similar to it.

    box: the patch of the case; there: the patch of the training image `case`; both in fractions of width and height.
    distance: between their features; usual: the same distance on held-out normal images, or null.
    """

    box: Rectangle
    there: Rectangle
    case: PictureOfCase
    distance: float
    usual: UsualDistance | None


def open_case(ctx: Context, request: Request, number: int, run: str = "") -> RequestContext:
    """Returns the context of a request for a case. number: the case number on the page, which may be a neutral one.

    The transaction ends here: pictures are made outside it.
    """
    with ctx.reading(request, number=number, run=run) as context:
        return context


def seen(ctx: Context, request: Request, number: int, run: str = "") -> RequestContext:
    """Opens a case as `open_case` does. Raises Hidden if it is hidden from the reader."""
    with ctx.reading(request, number=number, run=run) as context:
        context.demand_seen()
        return context


@router.get("/image.png", **binary("image/png"))
def image(ctx: Studio, who: Reader, request: Request, case_id: Id, size: Side = 0):
    """Return a case's image as PNG, in full or within `size` x `size`."""
    case, mark = _of(open_case(ctx, request, case_id))
    return send(request, f"{mark}-{size}", lambda: pixels.png(Source.of(case), size), "image/png")


@router.get("/thumb.png", **binary("image/png"))
def thumb(ctx: Studio, who: Reader, request: Request, case_id: Id, size: Side = 72):
    """Return a case's image as a thumbnail."""
    case, mark = _of(open_case(ctx, request, case_id))
    size = min(max(size, 16), 512)
    return send(request, f"{mark}-{size}", lambda: pixels.png(Source.of(case), size), "image/png")


@router.get("/raw", **binary("application/octet-stream"))
def raw(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Return the codes of an image of more than eight bits: little-endian uint16 (H, W).

    Headers: X-Image-Shape is "H,W"; an image value is X-Image-Offset + X-Image-Gain * code.
    """
    context = open_case(ctx, request, case_id)
    case, mark = _of(context)
    head, body = pixels.raw(case)
    return send(request, f"{mark}-raw", lambda: body, "application/octet-stream", head)


@router.get("/mask.bits", **binary("application/octet-stream"))
def mask_bits(ctx: Studio, who: Reader, request: Request, case_id: Id, id: Id | None = None):
    """Return the newest lesion mask, or the one with this id, as one bit a pixel, row by row, highest bit first.

    Rows are not padded; X-Image-Shape "H,W".
    """
    row = _mask(ctx, request, case_id, id)
    head, body = pixels.bits(masks.decode_mask(row["png"]))
    return send(request, f"bits-{row['number']}", lambda: body, "application/octet-stream", head)


@router.get("/heat", **binary("application/octet-stream"))
def heat(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name):
    """Return a run's heat map of a case: little-endian uint16 (h, w) at the detector's resolution.

    If some positions were not judged, one bit per position follows (1: not judged), highest bit first. X-Map headers:
    Shape; Range: values of codes 0 and 65535; Scale: ends of the colour scale; Threshold: level of the outline; Core:
    value that each outlined region must exceed somewhere; Share, if set: the outline's level between the lower end of
    Scale (0) and the image's maximum (1); Seen, if set: positions that normal images show, as rows of 0 and 1.
    """
    context = seen(ctx, request, case_id, run)
    head, body, stamp = _heat(context)
    return send(request, f"{run}-{case_id}-{stamp}", lambda: body, "application/octet-stream", head)


@router.get("/roi.bits", **binary("application/octet-stream"))
def roi(ctx: Studio, who: Reader, request: Request, case_id: Id, side: Side = 0):
    """Return the region of interest at the image's resolution, or at most `side` pixels a side.

    Bits as in mask.bits.
    """
    case, mark = _of(open_case(ctx, request, case_id))
    head, body = pixels.region(case, side)
    return send(request, f"roi-{mark}-{side}", lambda: body, "application/octet-stream", head)


@router.get("/pack", **binary("application/octet-stream", head=list))
def pack(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name = ""):
    """Return all layers of a case at once: image, heat map of `run`, newest lesion mask, region of interest.

    The answer is the head's length (little-endian uint32), the head (JSON: name, bytes and headers of each layer), and
    the layers. While the case is hidden from the reader, only the image is returned.
    """
    with ctx.reading(request, number=case_id, run=run) as context:
        case, mask, heat = context.asked_case, None, None
        if not context.hides(case["id"]):
            mask = masks.of_case(context)
            heat = _try(lambda: _heat(context)[:2]) if run else None
    image = _try(lambda: ("raw", *pixels.raw(case))) if (case["bits"] or 8) > 8 else None
    sections: list[tuple[str, dict, bytes]] = [image or ("image", {}, _full(case))]
    if mask is not None:
        head, body = pixels.bits(masks.decode_mask(mask["png"]))
        sections.append(("mask", {"id": mask["number"], **head}, body))
    if heat:
        sections += [("heat", *heat), ("roi", *pixels.region(case, GRID))]
    index = json.dumps([{"name": n, "bytes": len(b), "headers": h} for n, h, b in sections]).encode()
    body = b"".join([len(index).to_bytes(4, "little"), index, *(b for _, _, b in sections)])
    return Response(body, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.get("/nearest", response_model=NearestCases)
def nearest_normals(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name):
    """List the normal training images nearest to the case in the run's feature space."""
    context = seen(ctx, request, case_id, run)
    neighbours = explained.nearest(ctx.store(), run, context.asked_case["id"])
    return {"ok": True, "cases": [context.names.shown(neighbour) for neighbour in neighbours]}


@router.get("/explain", response_model=Explained)
def most_like(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name):
    """Return the patch that the run finds most abnormal, the normal patch most similar to it, and their distance."""
    context = seen(ctx, request, case_id, run)
    explanation = explained.explain(ctx.store(), run, context.asked_case["id"])
    return {"ok": True, **explanation, "case": context.names.shown(explanation["case"])}


def send(request: Request, tag: str, body, kind: str, head: dict | None = None) -> Response:
    """Sends the bytes of body() with their ETag, or 304 if the client already has them.

    A browser may cache them for a day if the address has the version `v`.
    """
    tag = f'"{tag}"'
    head = {"ETag": tag, "Cache-Control": KEEP if "v" in request.query_params else ASK, **(head or {})}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=head)
    return Response(pixels.readable(body), media_type=kind, headers=head)


def _full(case: dict) -> bytes:
    return pixels.readable(lambda: pixels.png(Source.of(case), 0))


def _try(call):
    """Returns the result of `call`, or None if it raises ValueError."""
    try:
        return call()
    except ValueError:
        return None


def _of(context: RequestContext) -> tuple[dict, str]:
    """Returns the row of a request's case, and a tag of its picture for ETags."""
    case = context.asked_case
    return case, f"{context.names.mark(case['id'], case['sha256'])}-{case['frame']}"


def _heat(context: RequestContext) -> tuple[dict, bytes, str]:
    """Returns a heat map's headers and bytes, and a tag that changes if the map is made again or rescaled."""
    store, run = context.store, context.run or ""
    row = map_of(context)
    scale = pixel_scale(get_run(store, run))
    head = {
        "X-Map-Shape": f"{row['map_h']},{row['map_w']}",
        "X-Map-Range": f"{row['map_lo']!r},{row['map_hi']!r}",
        "X-Map-Scale": f"{scale.lo!r},{scale.hi!r}",
        "X-Map-Threshold": repr(outline_level(row, scale)),
        "X-Map-Core": repr(scale.threshold),
    }
    if scale.share is not None:
        head["X-Map-Share"] = repr(scale.share)
    if scale.seen:
        head["X-Map-Seen"] = ",".join(scale.seen)
    body = zlib.decompress(row["map"])
    if row["not_judged"] is not None:
        body += pixels.bits(unpack_not_judged(row))[1]
    return head, body, f"{row['created']}-{scale.hi}"


def _mask(ctx: Context, request: Request, number: int, mask_id: int | None) -> dict:
    with ctx.reading(request, number=number) as context:
        context.demand_seen()
        row = masks.of_case(context, mask_id)
    if row is None:
        raise ValueError("The case has no such lesion mask.")
    return row
