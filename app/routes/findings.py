"""What readers find on a case: a label on the whole image, at a point or in a box. With a mask: masks.py."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.routes import _bodies as bodies
from app.routes._aliases import aliases_of
from app.routes._types import Id
from core.studio.review import blind, decisions, findings


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/review", include_in_schema=False)

    @router.post("/finding")
    def add(request: Request, body: bodies.Finding):
        store, name = ctx.store(), ctx.user_of(request)
        row = decisions.case_row(store, aliases_of(ctx, request).real(body.case))
        blind.demand(store, row, name)
        box = (body.box[0], body.box[1], body.box[2], body.box[3]) if body.box else None
        findings.add(store, row["id"], body.label, name, body.comment, box=box)
        return {"ok": True, "findings": findings.of_case(store, row["id"])}

    @router.delete("/finding/{finding}")
    def remove(request: Request, finding: Id):
        store, name = ctx.store(), ctx.user_of(request)
        case = findings.remove(store, finding, name)
        return {"ok": True, "findings": findings.of_case(store, case)}

    return router
