"""Pictures of one case: image, thumbnail, lesion mask, heat map, region of interest. All lossless, all with an ETag.

A blind study's heat maps and masks are refused until the reader has committed.
"""

from __future__ import annotations

import json
import zlib

from fastapi import APIRouter, Request, Response

from app.routes import _pixels as pixels
from app.routes._aliases import aliases_of
from app.routes._types import Id, Name, Side
from core.studio.ingest.originals import Source
from core.studio.review import blind, masks, scales
from core.studio.review.decisions import case_row
from core.studio.runs import explained, nearest
from core.studio.runs.readings import stored_map
from core.studio.runs.records import get_run

GRID = 512  # side of the grid on which the page finds contours and regions
KEEP = "private, max-age=86400, immutable"  # for addresses that carry the content's own mark (?v=)
ASK = "private, no-cache"


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/case/{case_id}", include_in_schema=False)

    def open_case(request: Request, case_id: int) -> dict:
        """The case's row, with the `mark` of its file; `case_id` may be an alias."""
        names = aliases_of(ctx, request)
        case = case_row(ctx.store(), names.real(case_id))
        return {**case, "mark": names.mark(case["study"], case["sha256"])}

    def seen(request: Request, case_id: int) -> dict:
        case = open_case(request, case_id)
        blind.demand(ctx.store(), case, ctx.user_of(request))
        return case

    @router.get("/image.png")
    def image(request: Request, case_id: Id, size: Side = 0):
        case = open_case(request, case_id)
        tag = f"{case['mark']}-{case['frame']}-{size}"
        return send(request, tag, lambda: pixels.png(Source.of(case), size), "image/png")

    @router.get("/thumb.png")
    def thumb(request: Request, case_id: Id, size: Side = 72):
        case = open_case(request, case_id)
        size = min(max(size, 16), 512)
        tag = f"{case['mark']}-{case['frame']}-{size}"
        return send(request, tag, lambda: pixels.png(Source.of(case), size), "image/png")

    @router.get("/raw")
    def raw(request: Request, case_id: Id):
        """More than eight bits: little-endian Uint16 (H, W), X-Image-Shape "H,W"; X-Image-Offset is added back."""
        case = open_case(request, case_id)
        head, body = pixels.raw(case)
        return send(request, f"{case['mark']}-{case['frame']}-raw", lambda: body, "application/octet-stream", head)

    @router.get("/mask.png")
    def mask(request: Request, case_id: Id, id: Id | None = None):
        row = _mask(ctx.store(), seen(request, case_id), id)
        return send(request, f"mask-{row['id']}", lambda: row["png"], "image/png")

    @router.get("/mask.bits")
    def mask_bits(request: Request, case_id: Id, id: Id | None = None):
        """One bit a pixel, row by row, highest bit first, without padding between rows; X-Image-Shape "H,W"."""
        row = _mask(ctx.store(), seen(request, case_id), id)
        head, body = pixels.bits(masks.decode_mask(row["png"]))
        return send(request, f"bits-{row['id']}", lambda: body, "application/octet-stream", head)

    @router.get("/heat")
    def heat(request: Request, case_id: Id, run: Name):
        """Little-endian Uint16 (h, w) at the detector's resolution; its range and the run's scale are in headers."""
        case = seen(request, case_id)
        head, body, made = _heat(ctx.store(), case["id"], run)
        return send(request, f"{run}-{case_id}-{made}", lambda: body, "application/octet-stream", head)

    @router.get("/roi.bits")
    def roi(request: Request, case_id: Id, side: Side = 0):
        """Region of interest at the image's own resolution, or at no more than `side` a side; bits as in mask.bits."""
        case = open_case(request, case_id)
        head, body = pixels.region(case, side)
        tag = f"roi-{case['mark']}-{case['frame']}-{side}"
        return send(request, tag, lambda: body, "application/octet-stream", head)

    @router.get("/pack")
    def pack(request: Request, case_id: Id, run: Name = ""):
        """All that is seen of a case in one answer: image, heat map of `run`, newest lesion mask, region of interest.

        Length of the head (little-endian uint32), the head (JSON: parts with name, bytes, headers), the parts. While
        the case is hidden from the reader the image is all there is.
        """
        store, case = ctx.store(), open_case(request, case_id)
        image = _try(lambda: ("raw", *pixels.raw(case))) if (case["bits"] or 8) > 8 else None
        parts: list[tuple[str, dict, bytes]] = [image or ("image", {}, _full(case))]
        if not blind.hides(store, case, ctx.user_of(request)):
            mask = masks.latest(store, case["id"])
            if mask is not None:
                head, body = pixels.bits(masks.decode_mask(mask["png"]))
                parts.append(("mask", {"id": mask["id"], **head}, body))
            heat = _try(lambda: _heat(store, case["id"], run)[:2]) if run else None
            if heat:
                parts += [("heat", *heat), ("roi", *pixels.region(case, GRID))]
        index = json.dumps([{"name": n, "bytes": len(b), "headers": h} for n, h, b in parts]).encode()
        body = b"".join([len(index).to_bytes(4, "little"), index, *(b for _, _, b in parts)])
        return Response(body, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    @router.get("/nearest")
    def nearest_normals(request: Request, case_id: Id, run: Name):
        """The normal training images nearest to the case by the run's encoder."""
        case = seen(request, case_id)
        names = aliases_of(ctx, request)
        found = nearest.nearest(ctx.store(), run, case["id"])
        return {"ok": True, "cases": [names.shown(case["study"], one) for one in found]}

    @router.get("/explain")
    def most_like(request: Request, case_id: Id, run: Name):
        """The patch that the run finds most abnormal, the normal patch most like it, and how far that still is."""
        case = seen(request, case_id)
        found = explained.explain(ctx.store(), run, case["id"])
        return {"ok": True, **found, "case": aliases_of(ctx, request).shown(case["study"], found["case"])}

    return router


def send(request: Request, tag: str, body, kind: str, head: dict | None = None) -> Response:
    """The bytes of body() with their ETag, or 304 to who has them; for a day where the address has the mark `v`."""
    tag = f'"{tag}"'
    head = {"ETag": tag, "Cache-Control": KEEP if "v" in request.query_params else ASK, **(head or {})}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=head)
    return Response(pixels.readable(body), media_type=kind, headers=head)


def _full(case: dict) -> bytes:
    return pixels.readable(lambda: pixels.png(Source.of(case), 0))


def _try(part):
    """The part, or None where there is none of it."""
    try:
        return part()
    except ValueError:
        return None


def _heat(store, case_id: int, run: str) -> tuple[dict, bytes, str]:
    """Headers, values, and a mark that differs between two maps of the same run and case."""
    row = stored_map(store, run, case_id)
    scale = scales.pixel_scale(store, get_run(store, run))
    head = {
        "X-Map-Shape": f"{row['map_h']},{row['map_w']}",
        "X-Map-Range": f"{row['map_lo']!r},{row['map_hi']!r}",
        "X-Map-Scale": f"{scale['lo']!r},{scale['hi']!r}",
        "X-Map-Threshold": repr(scale["threshold"]),
    }
    return head, zlib.decompress(row["map"]), f"{row['created']}-{scale['hi']}"


def _mask(store, case: dict, mask_id: int | None) -> dict:
    row = masks.latest(store, case["id"]) if mask_id is None else masks.version(store, mask_id)
    if row is None or row["case_id"] != case["id"]:
        raise ValueError("The case has no such lesion mask.")
    return row
