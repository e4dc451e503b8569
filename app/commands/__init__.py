"""Verbs (subcommands) of `launch.py`, one module per topic. Each verb is a function decorated with `verb`."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sqlite3
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.commands._common import GROUPS, VERBS, UserError, fail

DEFAULT = "app"
DATABASE = {  # messages of SQLite about the disk, and the messages that replace them
    "database or disk is full": "The disk is full; nothing was stored. Free some space and try again",
    "attempt to write a readonly database": "The home cannot be written to: check its disk and permissions",
    "unable to open database file": "The database cannot be opened: check the home's disk and permissions",
    "database is locked": "Another process has kept the database locked for too long; try again",
}
INSTALLED = "pmsacl-studio"  # the command that `pip install` installs (pyproject.toml)
ORDER = (  # order of the modules in --help
    "page", "studies", "training", "detectors", "models", "results", "trials", "clusters", "home",
)  # fmt: skip


def parser(more: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Builds the argument parser of all verbs. The verbs of the additional modules `more` come last."""
    top = argparse.ArgumentParser(
        prog=INSTALLED if Path(sys.argv[0]).stem == INSTALLED else "launch.py",
        description="PMSACL Studio: turn a folder of normal images into a screening reader, and review what it flags.",
        epilog=f"Without a verb: {DEFAULT}. Research use; not a medical device.",
    )
    verbs = top.add_subparsers(dest="verb", metavar="VERB")
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    names.sort(key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))
    inner: dict[str, Any] = {}
    for module in [*(f"{__name__}.{n}" for n in names), *more]:
        importlib.import_module(module)
        for verb in VERBS.get(module, ()):
            first, _, second = verb.name.partition(" ")
            if second and first not in inner:
                words = "|".join(v.name.partition(" ")[2] for v in VERBS[module] if v.name.startswith(f"{first} "))
                group = verbs.add_parser(first, help=GROUPS[first], description=GROUPS[first])
                inner[first] = group.add_subparsers(dest="what", metavar=words, required=True)
            verb.add(inner[first] if second else verbs, second or first)
    return top


def entry() -> int:
    """Runs the installed command `pmsacl-studio`, which has the verbs of `launch.py`, and returns the exit status."""
    return main(sys.argv[1:])


def main(argv: list[str], more: Sequence[str] = ()) -> int:
    """Runs the verb in `argv` and returns the exit status: 0 for success, 1 for failure, 2 for a mistake by the user.

    A mistake by the user is reported in one sentence, without a traceback.
    more: Names of additional modules that declare verbs.
    """
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        argv = [DEFAULT, *argv]
    args = parser(more).parse_args(argv)
    try:
        return int(args.run(args) or 0)
    except KeyboardInterrupt:
        return fail(args, "Stopped", 1)
    except BrokenPipeError:  # `| head` has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        return fail(args, str(error), error.status)
    except ValueError as error:
        if _ours(error):
            return fail(args, str(error), 2)
        return _broken(args, error)
    except sqlite3.OperationalError as error:
        sentence = DATABASE.get(str(error))
        return fail(args, sentence, 1) if sentence else _broken(args, error)
    except OSError as error:
        return fail(args, f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 1)
    except Exception as error:
        return _broken(args, error)


def _ours(error: ValueError) -> bool:
    """Returns whether the studio's own code raised the error, so that its message is a sentence for users."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return any(last.startswith(os.path.join(root, floor)) for floor in ("app", "core", "tests"))


def _broken(args, error: Exception) -> int:
    from core.studio.db import logged
    from core.studio.db.home import Home

    text = f"Internal error ({type(error).__name__}: {error})"
    try:
        file = Home.at(getattr(args, "home", None)).path / "errors.log"
        with file.open("a", encoding="utf-8") as out:
            out.write(logged.trace_of(error) + "\n")
    except (OSError, ValueError) as also:
        return fail(args, f"{text}; the details could not be saved: {getattr(also, 'strerror', None) or also}", 1)
    return fail(args, f"{text}; the details are in {file}", 1)
