"""Pages to sign in and out, to change the password and to manage access tokens. Sessions: app/access/sessions.py.

Wrong passwords slow down further attempts from the same address on the same account. They never lock out the owner of
the account: a browser from which the owner has signed in before has a separate count. A few threads with a short queue
check passwords, because hashing is deliberately slow and must not slow down the page. Tokens can only be created and
revoked in a browser, not by means of another token.
"""

from __future__ import annotations

import asyncio
import html
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from app.access.sessions import KNOWN_DAYS
from app.context import APP, Context, token_of
from app.theme import variables
from core.studio.db.store import NotFound
from core.studio.review import people

# Stand-alone pages with one form and no script.
FRAME = (APP / "static" / "door.html").read_text()
LONGEST_NAME, LONGEST_PASSWORD = 64, 1024
SIGN_IN = """<label>Name<input name="name" autocomplete="username" required autofocus></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<p role="alert">{message}</p>
<button>Sign in</button>"""
PASSWORD = """<p class="note">Password of <strong>{name}</strong></p>
<label>Current password<input name="old" type="password" autocomplete="current-password" required autofocus></label>
<label>New password<input name="new" type="password" autocomplete="new-password" minlength="{least}" required></label>
<label>New password again<input name="again" type="password" autocomplete="new-password" required></label>
<p role="alert">{message}</p>
<button>Change password</button>
<a href="./">Back to the studio</a>"""
CHANGED = """<p role="status">The password of <strong>{name}</strong> has been changed. All other browsers are signed
out.</p>
<a href="./">Back to the studio</a>"""

TOKENS = """<p class="note">Programs sign in as <strong>{name}</strong> with a token in the header
<code>Authorization: Bearer ...</code>. Anyone who has it can do what you can. A new password revokes all tokens.</p>
<label>Purpose of the new token<input name="name" maxlength="64" autofocus></label>
<p role="alert">{message}</p>
<button name="act" value="make">Make a token</button>
<!--rows-->
<a href="./">Back to the studio</a>"""
TOKEN = """<p class="note">Token for <strong>{purpose}</strong>. It is shown only once: store it where
nobody else reads it.</p>
<input readonly aria-label="Token" value="{token}" autofocus>
<a href="tokens">All tokens</a>"""
TOKEN_ROW = """<div class="row"><span>{name}<br><i>made {created}</i></span>
<button class="plain" name="revoke" value="{id}" formnovalidate aria-label="Revoke {name}">Revoke</button></div>"""


def _filled(form: str, **values: object) -> str:
    """Returns the HTML `form` with its {placeholders} replaced by `values`, which are escaped."""
    return form.format(**{key: html.escape(str(value)) for key, value in values.items()})


def form_page(
    title: str, form: str, status: int = 200, headers: dict | None = None, rows: str = "", **values: object
) -> HTMLResponse:
    """Returns a page that contains the HTML `form`. The escaped `values` replace its {placeholders}.

    rows: HTML that replaces <!--rows--> and is not escaped.
    """
    inner = _filled(form, **values).replace("<!--rows-->", rows)
    text = FRAME.replace("/*variables*/", variables()).replace("<!--title-->", title).replace("<!--form-->", inner)
    return HTMLResponse(text, status, headers)


WRONG = "The name or the password is wrong."


def sign_in_router(door: Door) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    ctx = door.ctx

    def page(message: str = "", status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
        return form_page("sign in", SIGN_IN, status, headers, message=message)

    def session(name: str, password: str) -> str | None:
        """Returns the cookie of a new session, or None if the password is wrong or has just been changed."""
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
        if len(name) > LONGEST_NAME or len(password) > LONGEST_PASSWORD:
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


WRONG_OLD = "That is not the current password."


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
        if max(len(old), len(new)) > LONGEST_PASSWORD:
            return page(f"A password may have at most {LONGEST_PASSWORD} characters.", 400)
        if new != repeated:
            return page("The two new passwords differ.", 400)

        def changed() -> str | None:
            mark = people.change_password(ctx.store(), name, old, new)
            with ctx.store().write():
                return ctx.sessions.start(name) if mark and people.password_mark(ctx.store(), name) == mark else None

        try:
            answer = await door.check(request, name, changed, page, WRONG_OLD)
        except NotFound:  # the account has just been removed
            return RedirectResponse("/sign-in", 303)
        except ValueError as error:
            return page(f"{error}.".capitalize(), 400)
        if isinstance(answer, Response):
            return answer
        return door.admit(form_page("password", CHANGED, name=name), request, name, answer)

    return router


def _form(name: str, message: str = "", status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    return form_page("password", PASSWORD, status, headers, name=name, message=message, least=people.SHORTEST)


BY_HAND = "Tokens can be created and revoked only in a browser, after signing in with a password."
ONCE = {"Cache-Control": "no-store"}


def tokens_router(ctx: Context) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    def page(name: str, message: str = "", status: int = 200) -> HTMLResponse:
        tokens = people.list_tokens(ctx.store(), name)
        rows = "".join(
            _filled(TOKEN_ROW, id=row["id"], name=row["name"], created=row["created"][:10]) for row in tokens
        )
        return form_page("tokens", TOKENS, status, ONCE, rows, name=name, message=message)

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
                return page(name, str(error) if "revoke" not in fields else "This token does not exist.", 400)
            return form_page("token", TOKEN, 200, ONCE, purpose=purpose, token=token)

        return await run_in_threadpool(done)

    return router


BUSY = "Too many people are signing in. Try again in a moment."
Page = Callable[[str, int, "dict[str, str] | None"], Response]  # arguments: a message, a status and headers
Answer = TypeVar("Answer", bound=Response)


class Door:
    """Checks passwords and sets the sign-in cookies. `attempts` and `pool` can be replaced in tests."""

    def __init__(self, ctx: Context, attempts: Attempts | None = None, pool: HashingPool | None = None):
        self.ctx = ctx
        self._attempts, self._pool = attempts or Attempts(), pool or HashingPool()

    async def check(
        self, request: Request, name: str, work: Callable[[], str | None], page: Page, wrong: str
    ) -> str | Response:
        """Runs `work` in a hashing thread. Returns its session cookie, or a page that states why the sign-in failed.

        `work` returns the cookie, or None if the password of `name` is wrong. In that case, the page shows `wrong`.
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
            self._attempts.withdraw(*attempt)  # the password was not checked
            raise
        if cookie is None:
            return page(wrong, 401, None)
        self._attempts.succeeded(*attempt)
        return cookie

    def admit(self, answer: Answer, request: Request, name: str, cookie: str) -> Answer:
        """Sets the session cookie and a cookie that marks the browser as known to `name`. Returns `answer`."""
        sessions, secure = self.ctx.sessions, request.url.scheme == "https"
        mark, age = sessions.mark_browser(name), KNOWN_DAYS * 86400
        answer.set_cookie(sessions.COOKIE, cookie, httponly=True, samesite="strict", secure=secure)
        answer.set_cookie(sessions.KNOWN, mark, age, httponly=True, samesite="strict", secure=secure)
        return answer


WORKERS = 2
QUEUE = 32

T = TypeVar("T")


class Busy(Exception):
    """Raised if so many people sign in at once that the queue of password checks is full."""


class HashingPool:
    """Runs password hashing in `workers` threads. Raises Busy if `queue` calls are already waiting."""

    def __init__(self, workers: int = WORKERS, queue: int = QUEUE):
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="password")
        self._room = threading.BoundedSemaphore(workers + queue)

    async def run(self, work: Callable[[], T]) -> T:
        if not self._room.acquire(blocking=False):
            raise Busy
        try:
            future = self._threads.submit(work)
        except BaseException:
            self._room.release()
            raise
        future.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(future)


FREE = 5  # wrong passwords per address and account before the first wait
FREE_ADDRESS = 30  # wrong passwords per address over all accounts: a whole clinic may share an address
LONGEST = 900.0  # longest wait in seconds; waits double up to this length
FORGOTTEN = 3600.0  # seconds after the last wrong password, after which the count is reset
MOST = 20_000  # counts that are kept; the oldest are dropped


@dataclass
class _Misses:
    count: int = 0
    last: float = 0.0


class Attempts:
    """Counts wrong passwords by address, account and browser, and computes how long the next attempt must wait.

    An attempt counts as wrong until it succeeds, so that simultaneous guesses cannot avoid the waits. Thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._lock = threading.Lock()
        self._misses: OrderedDict[Hashable, _Misses] = OrderedDict()

    def begin(self, address: str, name: str, browser: str | None = None) -> float:
        """Starts an attempt. Returns 0.0 if the attempt may proceed, or the number of seconds to wait first.

        The attempt counts as wrong until `succeeded` or `withdraw` is called. `browser` is the token of a browser from
        which `name` has signed in before (Sessions.known_browser).
        """
        with self._lock:
            now = self._clock()
            limits = self._limits(address, name, browser)
            wait = max(self._wait(key, free, now) for key, free in limits)
            if wait > 0:
                return wait
            for key, _ in limits:
                misses = self._misses.setdefault(key, _Misses())
                misses.count, misses.last = misses.count + 1, now
                self._misses.move_to_end(key)
            while len(self._misses) > MOST:
                self._misses.popitem(last=False)
            return 0.0

    def succeeded(self, address: str, name: str, browser: str | None = None) -> None:
        """Records a correct password: resets the account's or browser's count, and subtracts one from the address's."""
        with self._lock:
            for key, free in self._limits(address, name, browser):
                if free == FREE:
                    self._misses.pop(key, None)
                elif key in self._misses:
                    self._misses[key].count -= 1

    def withdraw(self, address: str, name: str, browser: str | None = None) -> None:
        """Withdraws an attempt whose password was not checked, so that the attempt does not count as wrong."""
        with self._lock:
            for key, _ in self._limits(address, name, browser):
                if key in self._misses:
                    self._misses[key].count -= 1

    @staticmethod
    def _limits(address: str, name: str, browser: str | None) -> list[tuple[Hashable, int]]:
        if browser is not None:
            return [(("browser", browser), FREE)]
        return [(("account", address, name), FREE), (("address", address), FREE_ADDRESS)]

    def _wait(self, key: Hashable, free: int, now: float) -> float:
        misses = self._misses.get(key)
        if misses is None:
            return 0.0
        if now - misses.last > FORGOTTEN:
            del self._misses[key]
            return 0.0
        if misses.count < free:
            return 0.0
        delay = min(LONGEST, 2.0 ** min(misses.count - free, 20))
        return max(0.0, misses.last + delay - now)
