"""What the page's bar shows: which studies there are, what is at work, and where new cases came in; what is planned."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.routes._types import Id, Line
from core.studio.incoming import watch
from core.studio.jobs import queue as jobs
from core.studio.review import blind
from core.studio.training import live, plan


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/status")

    @router.get("")
    def status(request: Request):
        store = ctx.store()
        reading = blind.standing(store, ctx.user_of(request) or "")
        return {"ok": True, **live.now(store), "arrived": watch.changes(store), "reading": reading}

    @router.get("/plan")
    def planned(study: Line = ""):
        """What jobs make for a study, stage by stage, and how long it still takes."""
        return {"ok": True, **plan.plan(ctx.store(), study or None)}

    @router.post("/stop/{job}")
    def stop(job: Id):
        """Stop a job for good, with the steps that were to follow; what it has made stays."""
        return {"ok": True, "status": jobs.cancel(ctx.store(), job)}

    return router
