"""What the page's bar shows: which studies there are, and what is at work."""

from __future__ import annotations

from fastapi import APIRouter

from core.studio import live


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/status")

    @router.get("")
    def status():
        return {"ok": True, **live.now(ctx.store())}

    return router
