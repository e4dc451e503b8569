"""The bin: what was removed within the last week, and the way back."""

from __future__ import annotations

from fastapi import APIRouter, Request

from core.studio.db import owners
from core.studio.review import readers
from core.studio.runs import bin


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/bin", include_in_schema=False)

    @router.get("")
    def contents(request: Request):
        """Administrators see all of it, readers the runs that they made."""
        store, who = ctx.store(), ctx.user_of(request)
        rows = bin.contents(store)
        if not readers.rights(store, who, ctx.single_user)["administer"]:
            mine = set(owners.owned(store, "run", who))
            rows = [row for row in rows if row["kind"] == "run" and row["id"] in mine]
        return {"ok": True, "rows": rows, "days": bin.DAYS}

    @router.post("/run/{run_id}/restore")
    def restore_run(request: Request, run_id: str):
        bin.restore(ctx.store(), "run", run_id, ctx.user_of(request))
        return {"ok": True}

    @router.post("/study/{study}/restore")
    def restore_study(request: Request, study: str):
        bin.restore(ctx.store(), "study", study, ctx.user_of(request))
        return {"ok": True}

    return router
