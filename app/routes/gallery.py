"""The worklist as a grid: tiles with the heat map, positions in the list, the distribution of scores, tags."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from app.access.permissions import Reader, Studio
from app.routes import _tiles as tiles
from app.routes._types import Answer, Body, Finite, Id, Int, Name, Part, Side, binary
from app.routes.cases import send
from core.studio.ingest.originals import Source
from core.studio.review import cases
from core.studio.review.worklist import Query, Worklist

router = APIRouter(tags=["review"])


class CaseTag(Body):
    """A tag to add to cases or to remove; cases by their numbers in the worklist."""

    study: Name
    cases: Annotated[list[Id], Field(min_length=1, max_length=20_000)]
    tag: Name
    remove: bool = False


class ScoreSpread(Part):
    """The distribution of scores: counts of the bins between lo and hi; scores beyond are in the outer bins."""

    bins: list[int]
    lo: float
    hi: float
    threshold: float | None


class TagCount(Part):
    tag: str
    cases: int


class ListOverview(Answer):
    """An overview of the list of cases.

    total: rows of the filtered list. labels: whether it may be filtered by label.
    """

    total: int
    scores: ScoreSpread | None
    tags: list[TagCount]
    labels: bool


class Place(Answer):
    """A case's position in the list. at: the number of rows before it."""

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
        heat = tiles.heat_of(context) if run else None
    case = context.asked_case
    size = min(max(size, tiles.SIDES[0]), tiles.SIDES[1])
    mark = f"{context.names.mark(case['id'], case['sha256'])}-{case['frame']}-{size}"
    tag = f"tile-{mark}-{run}-{heat.mark}" if heat else f"tile-{mark}"
    return send(request, tag, lambda: tiles.webp(Source.of(case), size, heat), "image/webp")


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
