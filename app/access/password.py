"""Routes to change one's own password, for any signed-in reader who gives the current one."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.access import forms
from app.access.door import Door
from core.studio.db.store import NotFound
from core.studio.review import people

WRONG = "That is not the password of today."


def password_router(door: Door) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    ctx = door.ctx

    @router.get("/password")
    def show(request: Request) -> Response:
        return RedirectResponse("/", 303) if ctx.single_user else _form(ctx.user_of(request) or "")

    @router.post("/password")
    async def change(request: Request) -> Response:
        if ctx.single_user:
            return RedirectResponse("/", 303)
        name = ctx.user_of(request) or ""

        def page(message: str, status: int, headers: dict[str, str] | None = None) -> HTMLResponse:
            return _form(name, message, status, headers)

        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        old, new, repeated = (form.get(field, [""])[0] for field in ("old", "new", "again"))
        if max(len(old), len(new)) > forms.LONGEST_PASSWORD:
            return page(f"A password has at most {forms.LONGEST_PASSWORD} characters.", 400)
        if new != repeated:
            return page("The new password and its repetition differ.", 400)

        def changed() -> str | None:
            mark = people.change_password(ctx.store(), name, old, new)
            with ctx.store().write():
                return ctx.sessions.start(name) if mark and people.password_mark(ctx.store(), name) == mark else None

        try:
            answer = await door.check(request, name, changed, page, WRONG)
        except NotFound:  # the account has just been removed
            return RedirectResponse("/sign-in", 303)
        except ValueError as error:
            return page(f"{error}.".capitalize(), 400)
        if isinstance(answer, Response):
            return answer
        return door.admit(forms.page("password", forms.CHANGED, name=name), request, name, answer)

    return router


def _form(name: str, message: str = "", status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    return forms.page("password", forms.PASSWORD, status, headers, name=name, message=message, least=people.SHORTEST)
