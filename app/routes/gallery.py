"""Routes of the worklist's grid view: tiles with heat maps, positions in the list, the distribution of scores, tags."""

from __future__ import annotations

import functools
import zlib
from typing import Annotated, NamedTuple

import cv2
import numpy as np
from fastapi import APIRouter, Request
from pydantic import Field

from app.access.permissions import Reader, Studio
from app.routes._types import Answer, Body, Finite, Id, Int, Name, Part, Side, binary
from app.routes.cases import send
from core.engine.roi import find_roi
from core.studio.ingest.originals import Source
from core.studio.ingest.unreadable import Unreadable
from core.studio.review import cases
from core.studio.review.cases import map_of
from core.studio.review.context import RequestContext
from core.studio.review.worklist import Query, Worklist
from core.studio.runs.readings import pixel_scale, unpack_map
from core.studio.runs.records import get_run

router = APIRouter(tags=["review"])


class CaseTag(Body):
    """Request to add a tag to cases, or with `remove` to remove it. `cases` are numbers of cases on the page."""

    study: Name
    cases: Annotated[list[Id], Field(min_length=1, max_length=20_000)]
    tag: Name
    remove: bool = False


class ScoreSpread(Part):
    """Histogram of a worklist's scores, with equal bins from `lo` to `hi`. The end bins include scores out of range."""

    bins: list[int]
    lo: float
    hi: float
    threshold: float | None


class TagCount(Part):
    tag: str
    cases: int


class ListOverview(Answer):
    """Overview of a worklist of `total` cases. `labels` tells whether the reader may filter the list by label."""

    total: int
    scores: ScoreSpread | None
    tags: list[TagCount]
    labels: bool


class Place(Answer):
    """Case and its position in the worklist: `at` rows come before it. Both are null if no case matches."""

    case: int | None
    at: int | None


class CasesTagged(Answer):
    """Result of adding or removing a tag. `changed` is the number of changed cases."""

    tag: str
    changed: int


@router.get("/api/case/{case_id}/tile.webp", **binary("image/webp"))
def tile(ctx: Studio, who: Reader, request: Request, case_id: Id, size: Side = 192, run: Name = ""):
    """Returns a case's image within size x size pixels, overlaid with `run`'s heat map in the region of interest."""
    with ctx.reading(request, number=case_id, run=run) as context:
        if run:
            context.demand_seen()
        heat = heat_of(context) if run else None
    case = context.asked_case
    size = min(max(size, SIDES[0]), SIDES[1])
    mark = f"{context.names.mark(case['id'], case['sha256'])}-{case['frame']}-{size}"
    tag = f"tile-{mark}-{run}-{heat.mark}" if heat else f"tile-{mark}"
    return send(request, tag, lambda: webp(Source.of(case), size, heat), "image/webp")


@router.get("/api/review/overview", response_model=ListOverview)
def overview(ctx: Studio, who: Reader, request: Request, study: Name, run: Name = ""):
    """Returns the length of the worklist, the distribution of its scores, and the tags to filter it by."""
    with ctx.reading(request, study=study, run=run) as context:
        listing = Worklist(context, Query.from_values(request.query_params))
        return {
            "ok": True,
            "total": listing.total(),
            "scores": listing.distribution(),
            "tags": [] if listing.hidden else cases.tags_of_study(context.store, study, listing.query.splits),
            "labels": not listing.covered,
        }


@router.get("/api/review/place", response_model=Place)
def place(
    ctx: Studio,
    who: Reader,
    request: Request,
    study: Name,
    score: Finite | None = None,
    run: Name = "",
    case: Id = 0,
    unread: Int = 0,
):
    """Returns a case and its position in the worklist.

    With `score`, this is the case with the nearest score. With `unread`, this is the next unread case after `case`, or
    the first unread case if none follows. Otherwise, this is `case` itself.
    """
    with ctx.reading(request, study=study, number=case or None, run=run) as context:
        listing = Worklist(context, Query.from_values(request.query_params))
        nearest_id = context.case["id"] if context.case else None
        if score is not None:
            nearest_id = listing.nearest(score)
        elif unread and listing.query.decision not in ("", "unread"):
            nearest_id = None
        elif unread:
            waiting = listing.with_decision("unread")
            after = waiting.neighbour(nearest_id)
            nearest_id = next(iter(after or (waiting.neighbour(None) if nearest_id else [])), None)
        at = listing.place(nearest_id) if nearest_id else None
        return {"ok": True, "case": None if at is None else context.names.number(nearest_id or 0), "at": at}


@router.post("/api/review/tag", response_model=CasesTagged)
def tag(ctx: Studio, who: Reader, request: Request, body: CaseTag):
    """Adds a tag to cases, or removes it from them."""
    with ctx.writing(request, study=body.study) as context:
        chosen = context.of_study(body.cases)
        context.demand_open(*chosen)
        changed = cases.change_tag(context.store, context.study, chosen, body.tag, context.reader, body.remove)
    return {"ok": True, "tag": cases.clean_tag(body.tag), "changed": changed}


SIDES = 32, 512  # smallest and largest side length of a tile in pixels
QUALITY = 88  # WebP quality, 0 to 100
OPACITY = 0.6
ROI_SIDE = 288  # shorter side, in pixels, of the image in which the region of interest is found


class Heat(NamedTuple):
    """Heat map to blend into a tile.

    values: Heat values, float32 (h, w) as bytes, from 0 to 1 on the run's colour scale.
    mark: Part of an ETag that identifies the heat map and its scale.
    """

    values: bytes
    shape: tuple[int, int]
    mark: str


def heat_of(context: RequestContext) -> Heat:
    """Returns the heat map that the context's run computed for its case. Raises ValueError if there is none."""
    store, run = context.store, context.run or ""
    row = map_of(context)
    scale = pixel_scale(get_run(store, run))
    values = (unpack_map(row) - scale.lo) / ((scale.hi - scale.lo) or 1)
    mark = f"{zlib.crc32(row['created'].encode()):08x}-{scale.hi!r}"
    return Heat(np.clip(values, 0, 1).astype(np.float32).tobytes(), values.shape, mark)


@functools.lru_cache(maxsize=256)
def webp(source: Source, size: int, heat: Heat | None) -> bytes:
    """Returns an image as WebP, scaled down to fit into size x size pixels. A given heat map is blended in."""
    image = source.image()
    tile = _within(image, size / max(image.shape[:2]))
    if heat is not None:
        tile = _under(tile, heat, _within(image, ROI_SIDE / min(image.shape[:2])))
    is_encoded, data = cv2.imencode(".webp", tile[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    if not is_encoded:
        raise Unreadable("it cannot be written as WebP")
    return data.tobytes()


def _within(image: np.ndarray, scale: float) -> np.ndarray:
    """Scales an image uint8 (H, W, 3) by `scale`, but never enlarges it."""
    if scale >= 1:
        return image
    shape = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    return cv2.resize(image, shape, interpolation=cv2.INTER_AREA)


def _under(tile: np.ndarray, heat: Heat, image: np.ndarray) -> np.ndarray:
    """Returns the tile with the heat map blended in where `image` has its region of interest; low heat is invisible."""
    width, height = tile.shape[1], tile.shape[0]
    stored = np.frombuffer(heat.values, np.float32).reshape(heat.shape)
    values = cv2.resize(stored, (width, height), interpolation=cv2.INTER_LINEAR)
    inside = cv2.resize(find_roi(image), (width, height), interpolation=cv2.INTER_NEAREST)
    alpha = (OPACITY * np.clip((values - 0.4) / 0.3, 0, 1) * inside)[..., None]  # as in heat.js
    colours = cv2.applyColorMap(np.rint(255 * values).astype(np.uint8), cv2.COLORMAP_INFERNO)[..., ::-1]
    return np.rint(tile * (1 - alpha) + colours * alpha).astype(np.uint8)
