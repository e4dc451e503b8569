"""The sign-in page and its two routes. The accounts themselves live in core/studio/accounts.py."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from app.context import APP, Context
from app.theme import variables

PAGE = (APP / "static" / "sign_in.html").read_text()


def sign_in_router(ctx: Context) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    def page(message: str = "", status: int = 200) -> HTMLResponse:
        return HTMLResponse(PAGE.replace("/*variables*/", variables()).replace("<!--message-->", message), status)

    @router.get("/sign-in")
    def show(request: Request):
        return RedirectResponse("/", 303) if ctx.user_of(request) else page()

    @router.post("/sign-in")
    async def enter(request: Request):
        from starlette.concurrency import run_in_threadpool

        from core.studio.review import accounts

        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        name, password = form.get("name", [""])[0].strip(), form.get("password", [""])[0]

        def right() -> bool:
            return accounts.verify(ctx.store(), name, password)

        if not await run_in_threadpool(right):
            return page("That name and password do not belong together.", 401)
        wanted = request.query_params.get("next", "/")
        inside = wanted if wanted.startswith("/") and not wanted.startswith(("//", "/\\")) else "/"
        answer = RedirectResponse(inside, 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            ctx.sessions.COOKIE, ctx.sessions.make(name), httponly=True, samesite="strict", secure=secure, path="/"
        )
        return answer

    @router.post("/sign-out")
    def leave():
        answer = RedirectResponse("/sign-in", 303)
        answer.delete_cookie(ctx.sessions.COOKIE, path="/")
        return answer

    return router
