"""Accounts of those who sign in, for administrators. A password is answered once, and no cache keeps it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from app.routes import _bodies as bodies
from core.studio.ingest.studies import study_row
from core.studio.review import people

ONCE = {"Cache-Control": "no-store"}


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/accounts", include_in_schema=False)

    @router.get("/{study}")
    def everybody(request: Request, study: str):
        """Who can sign in, and how far each is with the study."""
        study_row(ctx.store(), study)
        rows = people.listing(ctx.store(), study)
        return {"ok": True, "sign_in": not ctx.single_user, "you": ctx.user_of(request), "accounts": rows}

    @router.post("")
    def invite(request: Request, response: Response, body: bodies.AccountRole):
        response.headers.update(ONCE)
        password = people.invite(ctx.store(), body.name.strip(), body.role, ctx.user_of(request))
        return {"ok": True, "name": body.name.strip(), "password": password}

    @router.post("/set/role")
    def set_role(request: Request, body: bodies.AccountRole):
        people.set_role(ctx.store(), body.name, body.role, ctx.user_of(request))
        return {"ok": True, "name": body.name}

    @router.post("/set/password")
    def reset(request: Request, response: Response, body: bodies.Account):
        response.headers.update(ONCE)
        password = people.reset(ctx.store(), body.name, ctx.user_of(request))
        return {"ok": True, "name": body.name, "password": password}

    @router.post("/set/removed")
    def remove(request: Request, body: bodies.Account):
        people.remove(ctx.store(), body.name, ctx.user_of(request))
        return {"ok": True, "name": body.name}

    return router
