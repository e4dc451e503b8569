"""test: check style and types, then run every test, with a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from app.commands import _checks
from app.commands._browser import find_browser
from app.commands._common import UserError, finish, say, verb

ROOT = Path(__file__).resolve().parents[2]


def add(subparsers) -> None:
    parser = verb(subparsers, "test", "Check style and types and run every test; installs a browser if needed", run)
    parser.add_argument("paths", nargs="*", help="only the tests in these files or folders, without the checks")
    parser.add_argument("-k", metavar="EXPRESSION", help="only tests whose names match, without the checks")


def run(args) -> int:
    if not (ROOT / "tests").is_dir():
        raise UserError("the tests come with the source, not with the installed package; clone it and run them there")
    browser = find_browser(lambda text: say(args, text))
    say(args, f"Browser: {browser}")
    # One thread each: the processes share the cores. A caller's own setting stays.
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PMSACL_BROWSER": browser, "PMSACL_TESTED_BY_VERB": "1"}

    def passes(command: list[str]) -> bool:
        return subprocess.call(command, cwd=ROOT, env=environment, stdout=sys.stderr if args.json else None) == 0

    checks = {}
    if not args.paths and not args.k:
        for name, command in _checks.CHECKS.items():
            say(args, f"{name}:")
            checks[name] = passes(command)
    tested = passes(_checks.pytest(args.paths, args.k))
    failed = [name for name, ok in checks.items() if not ok] + ["pytest"] * (not tested)
    finish(args, {"passed": not failed, "browser": browser, "checks": checks})
    if failed:
        say(args, f"Not passed: {', '.join(failed)}")
    return 1 if failed else 0
