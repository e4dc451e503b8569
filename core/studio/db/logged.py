"""Log entries of errors: the traceback, and the message unless it may contain a file name, hence a patient's name."""

from __future__ import annotations

import re
import traceback

LEFT_OUT = "(text left out: it may hold names)"
_NAMES = re.compile(r"""['"‘“\\/]|\.\w{2,5}\b""")  # quoted text, a path or a file extension


def text_of(error: BaseException) -> str:
    """Returns the message of an error, or LEFT_OUT if the message contains quoted text or a path."""
    text = str(error)
    return LEFT_OUT if _NAMES.search(text) else text


def trace_of(error: BaseException) -> str:
    """Returns the traceback of an error and its causes, without messages that may contain names of patients' files."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    first = f"{trace_of(before)}which led to:\n" if before is not None else ""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{first}{frames}{type(error).__name__}: {text_of(error)}\n"
