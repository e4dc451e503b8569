"""The worklist as a grid: small pictures with the heat map, places in the list, spread of the scores, tags."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.routes import _bodies as bodies
from app.routes import _tiles as tiles
from app.routes._aliases import aliases_of
from app.routes._types import Finite, Id, Int, Name, Side
from app.routes.cases import send
from core.studio.ingest.originals import Source
from core.studio.review import blind, cases, decisions, places, tags, worklist


def routes(ctx) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/api/case/{case_id}/tile.webp")
    def tile(request: Request, case_id: Id, size: Side = 192, run: Name = ""):
        """The image within size x size; with `run`, under its heat map inside the region of interest."""
        store, names = ctx.store(), aliases_of(ctx, request)
        case = decisions.case_row(store, names.real(case_id))
        if run:
            blind.demand(store, case, ctx.user_of(request))
        size = min(max(size, tiles.SIDES[0]), tiles.SIDES[1])
        heat = tiles.heat_of(store, case["id"], run) if run else None
        mark = f"{names.mark(case['study'], case['sha256'])}-{case['frame']}-{size}"
        tag = f"tile-{mark}-{run}-{heat.mark}" if heat else f"tile-{mark}"
        return send(request, tag, lambda: tiles.webp(Source.of(case), size, heat), "image/webp")

    def query(request: Request):
        return cases.asked(ctx.store(), ctx.user_of(request), dict(request.query_params))

    @router.get("/api/review/overview")
    def overview(request: Request, study: Name):
        """What stands round the list: how many rows, how their scores are spread, tags to filter by."""
        store, q = ctx.store(), query(request)
        covered = q.hidden or q.session is not None
        return {
            "ok": True,
            "total": places.total(store, q),
            "scores": places.distribution(store, q),
            "tags": [] if q.hidden else tags.of_study(store, study, q.splits),
            "labels": not covered,
        }

    @router.get("/api/review/place")
    def place(request: Request, study: Name, case: Id = 0, unread: Int = 0, score: Finite | None = None):
        """A case and how many rows of the list come before it: the one asked for, the next unread one after it (from
        the beginning again where there is none), or the one whose score is nearest. Null where there is none.
        """
        store, q, names = ctx.store(), query(request), aliases_of(ctx, request)
        found = names.real(case) if case else None
        if score is not None:
            found = places.nearest(store, q, score)
        elif unread and q.decision not in ("", "unread"):
            found = None
        elif unread:
            waiting = cases.asked(store, q.reader, {**request.query_params, "decision": "unread"})
            after = worklist.neighbour(store, waiting, found)
            found = next(iter(after or worklist.neighbour(store, waiting, None)), None)
        at = places.place(store, q, found) if found else None
        return {"ok": True, "case": None if at is None else names.number(study, found or 0), "at": at}

    @router.post("/api/review/tag")
    def tag(request: Request, body: bodies.CaseTag):
        store, name, names = ctx.store(), ctx.user_of(request), aliases_of(ctx, request)
        chosen = [names.real(case) for case in body.cases]
        for case in chosen:
            blind.demand(store, {"id": case, "study": body.study}, name)
        changed = tags.change(store, body.study, chosen, body.tag, name, body.remove)
        return {"ok": True, "tag": tags.clean(body.tag), "changed": changed}

    return router
