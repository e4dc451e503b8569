"""Signing in and out. Accounts: core/studio/review/people.py; sessions: app/access/sessions.py."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.access import forms
from app.access.door import Door
from core.studio.review import people

WRONG = "That name and password do not belong together."


def sign_in_router(door: Door) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    ctx = door.ctx

    def page(message: str = "", status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
        return forms.page("sign in", forms.SIGN_IN, status, headers, message=message)

    def session(name: str, password: str) -> str | None:
        """Returns the cookie of a new session; None if the password is wrong or has just been changed."""
        mark = people.verify(ctx.store(), name, password)
        if not mark:
            return None
        with ctx.store().write():
            return ctx.sessions.start(name) if people.password_mark(ctx.store(), name) == mark else None

    @router.get("/sign-in")
    def show(request: Request) -> Response:
        return RedirectResponse("/", 303) if ctx.user_of(request) else page()

    @router.post("/sign-in")
    async def enter(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        name, password = form.get("name", [""])[0].strip(), form.get("password", [""])[0]
        if len(name) > forms.LONGEST_NAME or len(password) > forms.LONGEST_PASSWORD:
            return page(WRONG, 401)
        answer = await door.check(request, name, lambda: session(name, password), page, WRONG)
        if isinstance(answer, Response):
            return answer
        target = request.query_params.get("next", "/")
        inside = target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"
        return door.admit(RedirectResponse(inside, 303), request, name, answer)

    @router.post("/sign-out")
    def leave(request: Request) -> Response:
        ctx.sessions.end(request.cookies.get(ctx.sessions.COOKIE))
        answer = RedirectResponse("/sign-in", 303)
        answer.delete_cookie(ctx.sessions.COOKIE, path="/")
        return answer

    return router
