"""Routes for the layers of a case: image, thumbnail, lesion mask, heat map, region of interest (lossless, with ETags).

While a study is read blind, the heat map and the masks of a case are refused until the reader has decided on it.
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
GRID = 512  # side length of the grid on which the page finds contours and regions
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
    """Patch of a case that a run finds most abnormal, and the most similar patch of a normal training image.

    box: Patch of the case, as fractions of the image's width and height.
    there: Patch of the training image `case`, as fractions of that image's width and height.
    distance: Distance between the two patches in feature space.
    usual: Summary of this distance over held-out normal images, or null if there are none.
    """

    box: Rectangle
    there: Rectangle
    case: PictureOfCase
    distance: float
    usual: UsualDistance | None


def open_case(ctx: Context, request: Request, number: int, run: str = "") -> RequestContext:
    """Returns the request context of a case, given its number on the page (not its id if names are neutral)."""
    with ctx.reading(request, number=number, run=run) as context:
        return context  # its transaction ends here, before the image is read


def seen(ctx: Context, request: Request, number: int, run: str = "") -> RequestContext:
    """Returns the request context of a case, as `open_case` does. Raises Hidden if it is hidden from the reader."""
    with ctx.reading(request, number=number, run=run) as context:
        context.demand_seen()
        return context


@router.get("/image.png", **binary("image/png"))
def image(ctx: Studio, who: Reader, request: Request, case_id: Id, size: Side = 0):
    """Returns the image of a case as PNG, scaled down to at most `size` pixels per side (0: not scaled)."""
    case, mark = _of(open_case(ctx, request, case_id))
    return send(request, f"{mark}-{size}", lambda: pixels.png(Source.of(case), size), "image/png")


@router.get("/thumb.png", **binary("image/png"))
def thumb(ctx: Studio, who: Reader, request: Request, case_id: Id, size: Side = 72):
    """Returns the image of a case as a thumbnail."""
    case, mark = _of(open_case(ctx, request, case_id))
    size = min(max(size, 16), 512)
    return send(request, f"{mark}-{size}", lambda: pixels.png(Source.of(case), size), "image/png")


@router.get("/raw", **binary("application/octet-stream"))
def raw(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Returns the image of a case with more than 8 bits per pixel as codes: little-endian uint16 (H, W).

    The value of a pixel is X-Image-Offset + X-Image-Gain * code; X-Image-Shape is "H,W".
    """
    context = open_case(ctx, request, case_id)
    case, mark = _of(context)
    head, body = pixels.raw(case)
    return send(request, f"{mark}-raw", lambda: body, "application/octet-stream", head)


@router.get("/mask.bits", **binary("application/octet-stream"))
def mask_bits(ctx: Studio, who: Reader, request: Request, case_id: Id, id: Id | None = None):
    """Returns the newest lesion mask, or the mask with the given id, with one bit per pixel.

    Rows follow each other without padding, and the highest bit of a byte comes first. X-Image-Shape is "H,W".
    """
    row = _mask(ctx, request, case_id, id)
    head, body = pixels.bits(masks.decode_mask(row["png"]))
    return send(request, f"bits-{row['number']}", lambda: body, "application/octet-stream", head)


@router.get("/heat", **binary("application/octet-stream"))
def heat(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name):
    """Returns a run's heat map of a case: little-endian uint16 (h, w) at the detector's resolution.

    If the detector skipped positions, one bit per position follows (1: not judged), highest bit first. Headers:
    X-Map-Shape: "h,w".
    X-Map-Range: Heat values of codes 0 and 65535, separated by a comma.
    X-Map-Scale: Heat values at the lower and upper end of the colour scale, separated by a comma.
    X-Map-Threshold: Heat value at which regions are outlined.
    X-Map-Core: Heat value that a region must exceed at one or more positions to be outlined.
    X-Map-Share: Optional. Outline level as a fraction of the way from the scale's lower end to the image's maximum.
    X-Map-Seen: Optional. A string of 0 and 1 per row, separated by commas; 1 marks positions that normal images show.
    """
    context = seen(ctx, request, case_id, run)
    head, body, stamp = _heat(context)
    return send(request, f"{run}-{case_id}-{stamp}", lambda: body, "application/octet-stream", head)


@router.get("/roi.bits", **binary("application/octet-stream"))
def roi(ctx: Studio, who: Reader, request: Request, case_id: Id, side: Side = 0):
    """Returns the region of interest in the format of mask.bits, scaled to at most `side` pixels (0: not scaled)."""
    case, mark = _of(open_case(ctx, request, case_id))
    head, body = pixels.region(case, side)
    return send(request, f"roi-{mark}-{side}", lambda: body, "application/octet-stream", head)


@router.get("/pack", **binary("application/octet-stream", head=list))
def pack(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name = ""):
    """Returns all layers of a case: image and, unless hidden, lesion mask, heat map of `run` and region of interest.

    The answer consists of the head's length (little-endian uint32), the head, and the layers one after another. The
    head is a JSON list with the name, number of bytes and headers of each layer.
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
    """Lists the normal training images nearest to a case in a run's feature space."""
    context = seen(ctx, request, case_id, run)
    neighbours = explained.nearest(ctx.store(), run, context.asked_case["id"])
    return {"ok": True, "cases": [context.names.shown(neighbour) for neighbour in neighbours]}


@router.get("/explain", response_model=Explained)
def most_like(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name):
    """Returns the patch that a run finds most abnormal, the normal patch most similar to it, and their distance."""
    context = seen(ctx, request, case_id, run)
    explanation = explained.explain(ctx.store(), run, context.asked_case["id"])
    return {"ok": True, **explanation, "case": context.names.shown(explanation["case"])}


def send(request: Request, tag: str, body, kind: str, head: dict | None = None) -> Response:
    """Returns a response with the bytes of `body()` and an ETag, or with status 304 if the client has the same version.

    Browsers may cache the response for a day if the request has the query parameter `v`, a version.
    """
    tag = f'"{tag}"'
    head = {"ETag": tag, "Cache-Control": KEEP if "v" in request.query_params else ASK, **(head or {})}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=head)
    return Response(pixels.readable(body), media_type=kind, headers=head)


def _full(case: dict) -> bytes:
    return pixels.readable(lambda: pixels.png(Source.of(case), 0))


def _try(call):
    try:
        return call()
    except ValueError:
        return None


def _of(context: RequestContext) -> tuple[dict, str]:
    """Returns the row of a request's case, and a tag of its image for ETags."""
    case = context.asked_case
    return case, f"{context.names.mark(case['id'], case['sha256'])}-{case['frame']}"


def _heat(context: RequestContext) -> tuple[dict, bytes, str]:
    """Returns the headers and bytes of a heat map, and a tag that changes with the map and with its colour scale."""
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
