"""Password checks for all forms: guesses are slowed down, hashing is queued, and a right password gets the cookies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from fastapi import Request
from fastapi.responses import Response

from app.access.attempts import Attempts
from app.access.hashing import Busy, HashingPool
from app.access.sessions import KNOWN_DAYS
from app.context import Context

BUSY = "Many people are signing in. Try again in a moment."
Page = Callable[[str, int, "dict[str, str] | None"], Response]  # arguments: a message, a status and headers
Answer = TypeVar("Answer", bound=Response)


class Door:
    """Checks passwords and issues the sign-in cookies. `attempts` and `pool`: new ones unless given."""

    def __init__(self, ctx: Context, attempts: Attempts | None = None, pool: HashingPool | None = None):
        self.ctx = ctx
        self._attempts, self._pool = attempts or Attempts(), pool or HashingPool()

    async def check(
        self, request: Request, name: str, work: Callable[[], str | None], page: Page, wrong: str
    ) -> str | Response:
        """Runs `work` in a hashing thread; returns its cookie, or a page that says why sign-in failed.

        work: checks the password of `name` and returns None if it is wrong. wrong: the message in that case.
        """
        browser = self.ctx.sessions.known_browser(request.cookies.get(self.ctx.sessions.KNOWN), name)
        attempt = (request.client.host if request.client else "", name, browser)
        wait = math.ceil(self._attempts.begin(*attempt))
        if wait > 0:
            text = f"Too many wrong passwords. Try again in {wait} second{'s' if wait > 1 else ''}."
            return page(text, 429, {"Retry-After": str(wait)})
        try:
            cookie = await self._pool.run(work)
        except Busy:
            self._attempts.withdraw(*attempt)
            return page(BUSY, 503, {"Retry-After": "5"})
        except BaseException:
            self._attempts.withdraw(*attempt)  # it ended before the password was checked
            raise
        if cookie is None:
            return page(wrong, 401, None)
        self._attempts.succeeded(*attempt)
        return cookie

    def admit(self, answer: Answer, request: Request, name: str, cookie: str) -> Answer:
        """Adds the session cookie and the cookie that marks a browser as known to `name`; returns `answer`."""
        sessions, secure = self.ctx.sessions, request.url.scheme == "https"
        mark, age = sessions.mark_browser(name), KNOWN_DAYS * 86400
        answer.set_cookie(sessions.COOKIE, cookie, httponly=True, samesite="strict", secure=secure)
        answer.set_cookie(sessions.KNOWN, mark, age, httponly=True, samesite="strict", secure=secure)
        return answer
