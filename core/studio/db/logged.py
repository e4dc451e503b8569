"""Formats errors for the log. Messages that may contain file names are omitted, because these may name patients."""

from __future__ import annotations

import re
import traceback

LEFT_OUT = "(text left out: it may hold names)"
_NAMES = re.compile(r"""['"‘“\\/]|\.\w{2,5}\b""")  # quoted text, a path or a file extension


def text_of(error: BaseException) -> str:
    """Returns the message of an error, or LEFT_OUT if the message contains quoted text, a path or a file name."""
    text = str(error)
    return LEFT_OUT if _NAMES.search(text) else text


def trace_of(error: BaseException) -> str:
    """Returns the tracebacks of an error and of its causes, each with its message as returned by `text_of`."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    first = f"{trace_of(before)}which led to:\n" if before is not None else ""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{first}{frames}{type(error).__name__}: {text_of(error)}\n"
