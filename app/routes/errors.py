"""Answers to errors: {"ok": false, "error": one sentence for the page}, never a traceback."""

from __future__ import annotations

import errno
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from core.engine.progress import Stopped
from core.studio.db import limits, logged
from core.studio.db.foreign import fault
from core.studio.db.home import Home
from core.studio.db.store import is_full, now
from core.studio.review.people import NotAllowed
from core.studio.review.sessions import Hidden

_LOG = threading.Lock()


def sentence_of(error: RequestValidationError) -> str:
    """Returns one sentence that describes the first validation error of a request."""
    first = error.errors()[0]
    kind = first["type"]
    if kind == "json_invalid":
        return "The request's body is not JSON."
    where = first["loc"][1:]
    if kind == "missing" and not where:
        return "The request has no body."
    return fault({**first, "loc": where or ("The request's body",)}) + "."


def _answer(text: str, status: int, home: Path | None = None) -> JSONResponse:
    """Returns an error as JSON; the path of `home` is removed from the text."""
    return JSONResponse({"ok": False, "error": Home(home).left_out_of(text) if home else text}, status)


def is_refused_by_disk(error: BaseException) -> bool:
    """Returns whether an error means that the home is mounted read-only or lacks write permission."""
    return getattr(error, "errno", None) in (errno.EROFS, errno.EACCES, errno.EPERM) or "readonly database" in str(
        error
    )


def _passing(error: BaseException) -> JSONResponse | None:
    """Returns the answer to a temporary fault of the disk or database, or None. The page then repeats its request."""
    if is_full(error):
        return _answer("The disk is full; nothing was stored. Free some space and try again.", 507)
    if is_refused_by_disk(error):
        return _answer(
            "The studio's home cannot be written to; nothing was stored. Check its disk and permissions.", 507
        )
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return _answer("The studio is busy; nothing was stored. Try again in a moment.", 503)
    return None


def log_fault(home: Path, where: str, error: BaseException) -> str:
    """Logs an unexpected error, and the route or function `where` it occurred, in errors.log. Returns text to show."""
    file = home / "errors.log"
    with _LOG, suppress(OSError):
        if file.exists() and file.stat().st_size > limits.LIMITS["fault log"].most:
            file.replace(file.with_suffix(".log.1"))
        with file.open("a", encoding="utf-8") as out:
            out.write(f"{now()} {where}\n{logged.trace_of(error)}\n")
    return f"An internal error occurred ({type(error).__name__}). See errors.log in the studio's home for details."


def add_handlers(server: FastAPI, home: Path) -> None:
    """Adds the handlers that answer errors with a sentence. Unexpected errors are logged in the folder `home`."""

    @server.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        return _answer(sentence_of(error), 422)

    @server.exception_handler(NotAllowed)
    @server.exception_handler(Hidden)
    def refused(request: Request, error: ValueError) -> JSONResponse:
        return _answer(str(error), 403, home)

    @server.exception_handler(Stopped)
    def stopped(request: Request, error: Stopped) -> JSONResponse:
        return _answer("The request was cancelled because the client disconnected.", 499)

    @server.exception_handler(ValueError)
    def mistake(request: Request, error: ValueError) -> JSONResponse:
        return _answer(str(error), 400, home)

    @server.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        return _answer(str(error.detail), error.status_code)

    @server.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> JSONResponse:
        if (passing := _passing(error)) is not None:
            return passing
        if getattr(error, "errno", None) in (errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ):
            return _answer("A name in the request is too long or invalid.", 400)
        where = getattr(request.scope.get("route"), "path", "")  # the address itself may contain names
        return _answer(log_fault(home, f"{request.method} {where}", error), 500)
