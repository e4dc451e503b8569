"""Click-to-segment: the region that a reader's clicks ask for. See core/studio/review/segment.py."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from app.routes import _bodies as bodies
from app.routes import _pixels as pixels
from app.routes._aliases import aliases_of
from app.routes._types import Id
from core.studio.review import blind, decisions
from core.studio.review.segment import segment


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/review", include_in_schema=False)

    @router.post("/segment/{case_id}")
    def found(request: Request, case_id: Id, body: bodies.Clicks):
        """One bit a pixel, as mask.bits has them; nothing is stored. Without clicks: made ready for them, and empty."""
        store = ctx.store()
        case = decisions.case_row(store, aliases_of(ctx, request).real(case_id))
        blind.demand(store, case, ctx.user_of(request))
        mask = pixels.readable(lambda: segment(store, case, body.run, body.clicks, body.window))
        head, bits = pixels.bits(mask)
        head["Cache-Control"] = "no-store"
        return Response(bits, media_type="application/octet-stream", headers=head)

    return router
