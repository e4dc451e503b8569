"""The sign-in page and its two routes. Accounts: core/studio/review/accounts.py; sessions: app/access/sessions.py."""

from __future__ import annotations

import math
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.access.attempts import Attempts
from app.access.hashing import Busy, HashingPool
from app.access.sessions import KNOWN_DAYS
from app.context import APP, Context
from app.theme import variables
from core.studio.review import accounts

PAGE = (APP / "static" / "sign_in.html").read_text()
LONGEST_NAME, LONGEST_PASSWORD = 64, 1024


def sign_in_router(ctx: Context, attempts: Attempts | None = None, pool: HashingPool | None = None) -> APIRouter:
    """`attempts` and `pool`: the server's own unless given."""
    router = APIRouter(include_in_schema=False)
    attempts, pool = attempts or Attempts(), pool or HashingPool()

    def page(message: str = "", status: int = 200, headers: dict | None = None) -> HTMLResponse:
        text = PAGE.replace("/*variables*/", variables()).replace("<!--message-->", message)
        return HTMLResponse(text, status, headers)

    def session(name: str, password: str) -> str | None:
        """The cookie of a new session; None for a wrong password, or one that was changed meanwhile."""
        before = accounts.password_mark(ctx.store(), name)
        if not accounts.verify(ctx.store(), name, password):
            return None
        with ctx.store().write():
            return ctx.sessions.start(name) if accounts.password_mark(ctx.store(), name) == before else None

    @router.get("/sign-in")
    def show(request: Request) -> Response:
        return RedirectResponse("/", 303) if ctx.user_of(request) else page()

    @router.post("/sign-in")
    async def enter(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        name, password = form.get("name", [""])[0].strip(), form.get("password", [""])[0]
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            return page("That name and password do not belong together.", 401)
        address = request.client.host if request.client else ""
        browser = ctx.sessions.known_browser(request.cookies.get(ctx.sessions.KNOWN), name)
        wait = attempts.begin(address, name, browser)
        if wait > 0:
            seconds = math.ceil(wait)
            text = f"Too many wrong passwords. Try again in {seconds} second{'s' if seconds > 1 else ''}."
            return page(text, 429, {"Retry-After": str(seconds)})
        try:
            cookie = await pool.run(lambda: session(name, password))
        except Busy:
            attempts.withdraw(address, name, browser)
            return page("Many people are signing in. Try again in a moment.", 503, {"Retry-After": "5"})
        if cookie is None:
            return page("That name and password do not belong together.", 401)
        attempts.succeeded(address, name, browser)
        wanted = request.query_params.get("next", "/")
        inside = wanted if wanted.startswith("/") and not wanted.startswith(("//", "/\\")) else "/"
        answer = RedirectResponse(inside, 303)
        known, age, secure = ctx.sessions.mark_browser(name), KNOWN_DAYS * 86400, request.url.scheme == "https"
        answer.set_cookie(ctx.sessions.COOKIE, cookie, httponly=True, samesite="strict", secure=secure)
        answer.set_cookie(ctx.sessions.KNOWN, known, age, httponly=True, samesite="strict", secure=secure)
        return answer

    @router.post("/sign-out")
    def leave(request: Request) -> Response:
        ctx.sessions.end(request.cookies.get(ctx.sessions.COOKIE))
        answer = RedirectResponse("/sign-in", 303)
        answer.delete_cookie(ctx.sessions.COOKIE, path="/")
        return answer

    return router
