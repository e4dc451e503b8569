"""Routes for one's own access tokens: created and revoked in a browser, never by using another token."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app.access import forms
from app.context import Context, token_of
from core.studio.db.store import NotFound
from core.studio.review import people

BY_HAND = "Tokens are made and revoked in a browser, by whoever has signed in with a password."
ONCE = {"Cache-Control": "no-store"}


def tokens_router(ctx: Context) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    def page(name: str, message: str = "", status: int = 200) -> HTMLResponse:
        tokens = people.list_tokens(ctx.store(), name)
        rows = "".join(
            forms.filled(forms.TOKEN_ROW, id=row["id"], name=row["name"], created=row["created"][:10]) for row in tokens
        )
        return forms.page("tokens", forms.TOKENS, status, ONCE, rows, name=name, message=message)

    def refused(request: Request) -> Response | None:
        if ctx.single_user:
            return RedirectResponse("/", 303)
        return JSONResponse({"ok": False, "error": BY_HAND}, 403) if token_of(request) else None

    @router.get("/tokens")
    def show(request: Request) -> Response:
        return refused(request) or page(ctx.user_of(request) or "")

    @router.post("/tokens")
    async def act(request: Request) -> Response:
        if refusal := refused(request):
            return refusal
        name = ctx.user_of(request) or ""
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        fields = {field: values[0] for field, values in form.items()}

        def done() -> Response:
            try:
                if "revoke" in fields:
                    people.revoke_tokens(ctx.store(), name, name, int(fields["revoke"]))
                    return RedirectResponse("/tokens", 303)
                purpose = fields.get("name", "").strip()
                token = people.make_token(ctx.store(), name, purpose)
            except (ValueError, OverflowError, NotFound) as error:
                return page(name, str(error) if "revoke" not in fields else "There is no such token.", 400)
            return forms.page("token", forms.TOKEN, 200, ONCE, purpose=purpose, token=token)

        return await run_in_threadpool(done)

    return router
