"""Drawings that are not saved yet: kept by themselves, given back after a reload. See core/studio/review/drafts.py."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from app.routes._aliases import aliases_of
from app.routes._types import Id, Name
from core.studio.review import blind, decisions, drafts


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/review", include_in_schema=False)

    def seen(request: Request, case_id: int) -> tuple[int, str]:
        """The case's own number and who asks. Raises Hidden while the case is hidden from a blind reader."""
        name = ctx.user_of(request)
        row = decisions.case_row(ctx.store(), aliases_of(ctx, request).real(case_id))
        blind.demand(ctx.store(), row, name)
        return row["id"], name

    @router.get("/drafts")
    def listed(request: Request, study: Name):
        names = aliases_of(ctx, request)
        rows = drafts.listed(ctx.store(), study, ctx.user_of(request))
        return {"ok": True, "drafts": [{**row, "id": names.number(study, row["id"])} for row in rows]}

    @router.get("/draft/{case_id}")
    def body(request: Request, case_id: Id):
        found = drafts.body(ctx.store(), *seen(request, case_id))
        return Response(found, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    @router.post("/draft/{case_id}")
    async def keep(request: Request, case_id: Id):
        given = await request.body()
        await run_in_threadpool(lambda: drafts.keep(ctx.store(), *seen(request, case_id), given))
        return {"ok": True}

    @router.delete("/draft/{case_id}")
    def drop(request: Request, case_id: Id):
        drafts.drop(ctx.store(), *seen(request, case_id))
        return {"ok": True}

    return router
