"""Pictures of one case: image, thumbnail, lesion mask, heat map, region of interest. All lossless, all with an ETag.

A blind study's heat maps and masks are refused until the reader has committed.
"""

from __future__ import annotations

import functools
import json
import zlib

import cv2
import numpy as np
from fastapi import APIRouter, Request, Response

from core.studio.ingest.decode import read_image, read_raw
from core.studio.ingest.unreadable import Unreadable
from core.studio.review import blind, masks, scales
from core.studio.review.decisions import case_row
from core.studio.runs import nearest
from core.studio.runs.readings import stored_map
from core.studio.runs.records import get_run

GRID = 512  # side of the grid on which the page finds contours and regions
KEEP = "private, max-age=86400, immutable"  # for addresses that carry the content's own mark (?v=)
ASK = "private, no-cache"


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/case/{case_id}", include_in_schema=False)

    def open_case(case_id: int) -> dict:
        return case_row(ctx.store(), case_id)

    def seen(request: Request, case_id: int) -> dict:
        case = open_case(case_id)
        blind.demand(ctx.store(), case, ctx.user_of(request))
        return case

    @router.get("/image.png")
    def image(request: Request, case_id: int, size: int = 0):
        case = open_case(case_id)
        tag = f"{case['sha256']}-{case['frame']}-{size}"
        return _send(request, tag, lambda: _png(case["path"], case["frame"], size, case["sha256"]), "image/png")

    @router.get("/thumb.png")
    def thumb(request: Request, case_id: int, size: int = 72):
        case = open_case(case_id)
        size = min(max(size, 16), 512)
        tag = f"{case['sha256']}-{case['frame']}-{size}"
        return _send(request, tag, lambda: _png(case["path"], case["frame"], size, case["sha256"]), "image/png")

    @router.get("/raw")
    def raw(request: Request, case_id: int):
        """More than eight bits: little-endian Uint16 (H, W), X-Image-Shape "H,W"; X-Image-Offset is added back."""
        case = open_case(case_id)
        head, body = _raw(case)
        return _send(request, f"{case['sha256']}-{case['frame']}-raw", lambda: body, "application/octet-stream", head)

    @router.get("/mask.png")
    def mask(request: Request, case_id: int, id: int | None = None):
        row = _mask(ctx.store(), seen(request, case_id), id)
        return _send(request, f"mask-{row['id']}", lambda: row["png"], "image/png")

    @router.get("/mask.bits")
    def mask_bits(request: Request, case_id: int, id: int | None = None):
        """One bit a pixel, row by row, highest bit first, without padding between rows; X-Image-Shape "H,W"."""
        row = _mask(ctx.store(), seen(request, case_id), id)
        head, body = _bits(masks.decode_mask(row["png"]))
        return _send(request, f"bits-{row['id']}", lambda: body, "application/octet-stream", head)

    @router.get("/heat")
    def heat(request: Request, case_id: int, run: str):
        """Little-endian Uint16 (h, w) at the detector's resolution; its range and the run's scale are in headers."""
        seen(request, case_id)
        head, body, made = _heat(ctx.store(), case_id, run)
        return _send(request, f"{run}-{case_id}-{made}", lambda: body, "application/octet-stream", head)

    @router.get("/roi.bits")
    def roi(request: Request, case_id: int, side: int = 0):
        """Region of interest at the image's own resolution, or at no more than `side` a side; bits as in mask.bits."""
        case = open_case(case_id)
        head, body = _region(case, side)
        tag = f"roi-{case['sha256']}-{case['frame']}-{side}"
        return _send(request, tag, lambda: body, "application/octet-stream", head)

    @router.get("/pack")
    def pack(request: Request, case_id: int, run: str = ""):
        """All that is seen of a case in one answer: image, heat map of `run`, newest lesion mask, region of interest.

        Length of the head (little-endian uint32), the head (JSON: parts with name, bytes, headers), the parts. While
        the case is hidden from the reader the image is all there is.
        """
        store, case = ctx.store(), open_case(case_id)
        image = _try(lambda: ("raw", *_raw(case))) if (case["bits"] or 8) > 8 else None
        parts = [image or ("image", {}, _readable(lambda: _png(case["path"], case["frame"], 0, case["sha256"])))]
        if not blind.hides(store, case, ctx.user_of(request)):
            mask = masks.latest(store, case_id)
            if mask is not None:
                head, body = _bits(masks.decode_mask(mask["png"]))
                parts.append(("mask", {"id": mask["id"], **head}, body))
            heat = _try(lambda: _heat(store, case_id, run)[:2]) if run else None
            if heat:
                parts += [("heat", *heat), ("roi", *_region(case, GRID))]
        head = json.dumps([{"name": n, "bytes": len(b), "headers": h} for n, h, b in parts]).encode()
        body = b"".join([len(head).to_bytes(4, "little"), head, *(b for _, _, b in parts)])
        return Response(body, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    @router.get("/nearest")
    def nearest_normals(request: Request, case_id: int, run: str):
        """The normal training images nearest to the case by the run's encoder."""
        case = seen(request, case_id)
        found = nearest.nearest(ctx.store(), run, case_id)
        if blind.applies(ctx.store(), case["study"], ctx.user_of(request)):
            found = [{**f, "name": f"Case {f['id']}"} for f in found]
        return {"ok": True, "cases": found}

    return router


def _send(request: Request, tag: str, body, kind: str, head: dict | None = None) -> Response:
    tag = f'"{tag}"'
    head = {"ETag": tag, "Cache-Control": KEEP if "v" in request.query_params else ASK, **(head or {})}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=head)
    return Response(_readable(body), media_type=kind, headers=head)


def _readable(body):
    try:
        return body()
    except Unreadable as error:
        raise ValueError(f"The image can no longer be read: {error}. Put the file back where it was.") from None


def _try(part):
    """The part, or None where there is none of it."""
    try:
        return part()
    except ValueError:
        return None


def _raw(case: dict) -> tuple[dict, bytes]:
    codes, offset, gain = _uint16(_grey(_readable(lambda: read_raw(case["path"], case["frame"]))))
    head = {
        "X-Image-Shape": ",".join(map(str, codes.shape)),
        "X-Image-Offset": repr(offset),
        "X-Image-Gain": repr(gain),
    }
    return head, codes.tobytes()


def _bits(pixels: np.ndarray) -> tuple[dict, bytes]:
    return {"X-Image-Shape": ",".join(map(str, pixels.shape))}, np.packbits(pixels).tobytes()


def _heat(store, case_id: int, run: str) -> tuple[dict, bytes, str]:
    """Headers, values, and what tells this map from another of the same run and case."""
    row = stored_map(store, run, case_id)
    scale = scales.pixel_scale(store, get_run(store, run))
    head = {
        "X-Map-Shape": f"{row['map_h']},{row['map_w']}",
        "X-Map-Range": f"{row['map_lo']!r},{row['map_hi']!r}",
        "X-Map-Scale": f"{scale['lo']!r},{scale['hi']!r}",
        "X-Map-Threshold": repr(scale["threshold"]),
    }
    return head, zlib.decompress(row["map"]), f"{row['created']}-{scale['hi']}"


def _region(case: dict, side: int) -> tuple[dict, bytes]:
    pixels = _readable(lambda: _roi(case["path"], case["frame"], case["sha256"]))
    long = max(pixels.shape)
    if 0 < side < long:
        shape = (max(1, round(pixels.shape[1] * side / long)), max(1, round(pixels.shape[0] * side / long)))
        part = cv2.resize(pixels.astype(np.float32), shape, interpolation=cv2.INTER_AREA)
        pixels = (part >= 0.5).astype(np.uint8)
    return _bits(pixels)


def _mask(store, case: dict, mask_id: int | None) -> dict:
    row = masks.latest(store, case["id"]) if mask_id is None else masks.version(store, mask_id)
    if row is None or row["case_id"] != case["id"]:
        raise ValueError("The case has no such lesion mask.")
    return row


@functools.lru_cache(maxsize=64)
def _png(path: str, frame: int, size: int, sha256: str) -> bytes:
    """PNG of the full image, or of one that fits into size x size. Level 1: large images are sent sooner than
    squeezed."""
    image = read_image(path, frame)
    long = max(image.shape[:2])
    if 0 < size < long:
        shape = (max(1, round(image.shape[1] * size / long)), max(1, round(image.shape[0] * size / long)))
        image = cv2.resize(image, shape, interpolation=cv2.INTER_AREA)
    grey = bool((image[..., 0] == image[..., 1]).all() and (image[..., 0] == image[..., 2]).all())
    pixels = image[..., 0] if grey else np.ascontiguousarray(image[..., ::-1])
    done, data = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not done:
        raise Unreadable("it cannot be written as PNG")
    return data.tobytes()


def _grey(values: np.ndarray) -> np.ndarray:
    if values.ndim == 2:
        return values
    return values[..., :3].astype(np.float32) @ np.float32([0.299, 0.587, 0.114])


def _uint16(values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """codes, offset, gain with values = offset + gain * codes; exact for integers that span less than 65536."""
    lo, hi = float(values.min()), float(values.max())
    if values.dtype == np.uint16:
        return values.astype("<u2"), 0.0, 1.0
    whole = bool((values == np.rint(values)).all()) and hi - lo <= 65535
    gain = 1.0 if whole else max(hi - lo, 1e-12) / 65535
    return np.rint((values.astype(np.float64) - lo) / gain).astype("<u2"), lo, gain


@functools.lru_cache(maxsize=32)
def _roi(path: str, frame: int, sha256: str) -> np.ndarray:
    from core.engine.roi import find_roi

    return find_roi(read_image(path, frame))
