"""The guided tour: a page with the studio in a frame above and a bar below, so that nothing is ever covered."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from app.context import APP, Context
from app.theme import variables
from core.studio.demo import tour

FOLDER = APP / "widgets" / "tour"


def routes(ctx) -> APIRouter:
    router = APIRouter()

    @router.get("/walk")  # its address up to version 0.1
    def old_address():
        return RedirectResponse("/tour", 308)

    @router.get("/tour")
    def page():
        frame = (FOLDER / "tour.html").read_text(encoding="utf-8")
        for name in ("tour.css", "tour.js"):
            frame = frame.replace(f"{{{name}}}", Context.asset(f"widgets/tour/{name}"))
        return HTMLResponse(frame.replace("{palette}", variables()), headers={"Cache-Control": "no-store"})

    @router.get("/api/tour")
    def state():
        return {"ok": True, **tour.state(ctx.store())}

    @router.get("/api/tour/steps")
    def steps():
        return {"ok": True, **json.loads((FOLDER / "steps.json").read_text(encoding="utf-8"))}

    @router.post("/api/tour/prepare")
    def prepare():
        return {"ok": True, **tour.prepare(ctx.store(), ctx.store().setting("device", "auto"))}

    @router.post("/api/tour/reset")
    def reset(request: Request):
        if not ctx.single_user:
            raise ValueError("The demo study is put back only where nobody else works: open the studio without sign-in")
        return {"ok": True, **tour.reset(ctx.store(), ctx.user_of(request))}

    return router
