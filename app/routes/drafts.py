"""Unsaved drawings: stored automatically and restored after a reload. See core/studio/review/masks.py."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from app.access.permissions import Reader, Studio
from app.context import Context
from app.routes._types import Answer, Done, Id, Name, Part, binary
from core.studio.review import masks

router = APIRouter(prefix="/api/review", tags=["review"])


class Draft(Part):
    """An unsaved drawing. id: the case's."""

    id: int
    updated: str


class Drafts(Answer):
    drafts: list[Draft]


@router.get("/drafts", response_model=Drafts)
def listed(ctx: Studio, who: Reader, request: Request, study: Name):
    """List the reader's unsaved drawings, by case."""
    with ctx.reading(request, study=study) as context:
        rows = masks.list_drafts(context)
        context.names.prepare(row["id"] for row in rows)
        return {"ok": True, "drafts": [{**row, "id": context.names.number(row["id"])} for row in rows]}


@router.get("/draft/{case_id}", **binary("application/octet-stream"))
def body(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Return an unsaved drawing as it was stored."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
        draft = masks.draft_body(context)
    return Response(draft, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.post("/draft/{case_id}", response_model=Done)
async def keep(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Store an unsaved drawing; the body is the page's own format."""
    content = await request.body()
    await run_in_threadpool(change, ctx, request, case_id, lambda context: masks.keep_draft(context, content))
    return {"ok": True}


@router.delete("/draft/{case_id}", response_model=Done)
def drop(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Discard an unsaved drawing."""
    change(ctx, request, case_id, masks.drop_draft)
    return {"ok": True}


def change(ctx: Context, request: Request, case_id: int, act) -> None:
    """Runs `act` with a request's context, unless the case is hidden from the reader."""
    with ctx.writing(request, number=case_id) as context:
        context.demand_open()
        act(context)
