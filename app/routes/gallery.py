"""The worklist as a grid: tiles with the heat map, positions in the list, the distribution of scores, tags."""

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
    """A tag to add to cases or to remove from them. cases: their numbers in the worklist."""

    study: Name
    cases: Annotated[list[Id], Field(min_length=1, max_length=20_000)]
    tag: Name
    remove: bool = False


class ScoreSpread(Part):
    """The distribution of scores: counts in bins from lo to hi; the outer bins include scores beyond."""

    bins: list[int]
    lo: float
    hi: float
    threshold: float | None


class TagCount(Part):
    tag: str
    cases: int


class ListOverview(Answer):
    """An overview of the list of cases.

    total: rows of the filtered list. labels: whether the reader may filter it by label.
    """

    total: int
    scores: ScoreSpread | None
    tags: list[TagCount]
    labels: bool


class Place(Answer):
    """A case's position in the list. at: the number of rows before it. Both are null if no case matches."""

    case: int | None
    at: int | None


class CasesTagged(Answer):
    """A tag that was added to cases or removed. changed: how many cases."""

    tag: str
    changed: int


@router.get("/api/case/{case_id}/tile.webp", **binary("image/webp"))
def tile(ctx: Studio, who: Reader, request: Request, case_id: Id, size: Side = 192, run: Name = ""):
    """Return the image within size x size; with `run`, its heat map blended in inside the region of interest."""
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
    """Describe the list: the number of rows, the distribution of their scores, and the tags to filter by."""
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
    """Find a case and its position in the list.

    The case is the requested one, the next unread one after it (continuing from the top of the list), or the one with
    the nearest score; null if no case matches.
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
    """Add a tag to cases, or remove it."""
    with ctx.writing(request, study=body.study) as context:
        chosen = context.of_study(body.cases)
        context.demand_open(*chosen)
        changed = cases.change_tag(context.store, context.study, chosen, body.tag, context.reader, body.remove)
    return {"ok": True, "tag": cases.clean_tag(body.tag), "changed": changed}


SIDES = 32, 512  # pixels: the smallest and the largest tile
QUALITY = 88  # WebP quality
OPACITY = 0.6
ROI_SIDE = 288  # length of the short side for finding the region of interest


class Heat(NamedTuple):
    """A heat map to blend into a tile.

    values: float32 (h, w) as bytes, on the run's scale from 0 to 1. mark: part of an ETag, for the map and scale.
    """

    values: bytes
    shape: tuple[int, int]
    mark: str


def heat_of(context: RequestContext) -> Heat:
    """Returns the heat map of the context's case by the context's run. Raises ValueError if there is none."""
    store, run = context.store, context.run or ""
    row = map_of(context)
    scale = pixel_scale(get_run(store, run))
    values = (unpack_map(row) - scale.lo) / ((scale.hi - scale.lo) or 1)
    mark = f"{zlib.crc32(row['created'].encode()):08x}-{scale.hi!r}"
    return Heat(np.clip(values, 0, 1).astype(np.float32).tobytes(), values.shape, mark)


@functools.lru_cache(maxsize=256)
def webp(source: Source, size: int, heat: Heat | None) -> bytes:
    """Returns the image as WebP, scaled down to fit into size x size, with the heat map, if given, blended in."""
    image = source.image()
    tile = _within(image, size / max(image.shape[:2]))
    if heat is not None:
        tile = _under(tile, heat, _within(image, ROI_SIDE / min(image.shape[:2])))
    is_encoded, data = cv2.imencode(".webp", tile[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    if not is_encoded:
        raise Unreadable("it cannot be written as WebP")
    return data.tobytes()


def _within(image: np.ndarray, scale: float) -> np.ndarray:
    """Scales uint8 (H, W, 3) down by `scale`; never up."""
    if scale >= 1:
        return image
    shape = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    return cv2.resize(image, shape, interpolation=cv2.INTER_AREA)


def _under(tile: np.ndarray, heat: Heat, image: np.ndarray) -> np.ndarray:
    """Blends the heat map into the tile inside the ROI found in `image`; low values are transparent, as in heat.js."""
    width, height = tile.shape[1], tile.shape[0]
    stored = np.frombuffer(heat.values, np.float32).reshape(heat.shape)
    values = cv2.resize(stored, (width, height), interpolation=cv2.INTER_LINEAR)
    inside = cv2.resize(find_roi(image), (width, height), interpolation=cv2.INTER_NEAREST)
    alpha = (OPACITY * np.clip((values - 0.4) / 0.3, 0, 1) * inside)[..., None]
    colours = cv2.applyColorMap(np.rint(255 * values).astype(np.uint8), cv2.COLORMAP_INFERNO)[..., ::-1]
    return np.rint(tile * (1 - alpha) + colours * alpha).astype(np.uint8)
