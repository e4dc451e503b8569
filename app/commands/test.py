"""test: run every test, with a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from app.commands._browser import find_browser
from app.commands._common import UserError, finish, say, verb

ROOT = Path(__file__).resolve().parents[2]


def add(subparsers) -> None:
    parser = verb(subparsers, "test", "Run every test; installs a browser for them if there is none", run)
    parser.add_argument("paths", nargs="*", help="only these files or folders")
    parser.add_argument("-k", metavar="EXPRESSION", help="only tests whose names match")


def run(args) -> int:
    if not (ROOT / "tests").is_dir():
        raise UserError("the tests come with the source, not with the installed package; clone it and run them there")
    browser = find_browser(lambda text: say(args, text))
    say(args, f"Browser: {browser}")
    command = [sys.executable, "-m", "pytest", *args.paths, *(["-k", args.k] if args.k else [])]
    environment = {**os.environ, "PMSACL_BROWSER": browser, "PMSACL_TESTED_BY_VERB": "1"}
    if not args.json:
        return 1 if subprocess.call(command, cwd=ROOT, env=environment) else 0
    status = subprocess.call(command, cwd=ROOT, env=environment, stdout=sys.stderr)
    finish(args, {"passed": status == 0, "browser": browser})
    return 1 if status else 0
