"""What the page's bar shows: which studies there are, what is at work, and where new cases came in."""

from __future__ import annotations

from fastapi import APIRouter

from core.studio.incoming import watch
from core.studio.training import live


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/status")

    @router.get("")
    def status():
        return {"ok": True, **live.now(ctx.store()), "arrived": watch.changes(ctx.store())}

    return router
