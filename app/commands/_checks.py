"""What `launch.py test` looks at before it runs the tests: style, layout, types. One line each; all of them are run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

CHECKS: Mapping[str, list[str]] = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "scripts, style": [sys.executable, "-m", "app.commands._scripts", "style"],
    "scripts, types": [sys.executable, "-m", "app.commands._scripts", "types"],
    "scripts, generated": [sys.executable, "-m", "app.commands._scripts", "generated"],
    "scripts, tests": [sys.executable, "-m", "app.commands._scripts", "tests"],
}


def pytest(paths: list[str], expression: str | None = None, cores: int | None = None) -> list[str]:
    """The command that runs the tests below `paths` (none: all); in two processes where there are two cores or more.

    A file's tests stay in one process: they share the home and the server that the file's fixtures make.
    """
    command = [sys.executable, "-m", "pytest", *paths, *(["-k", expression] if expression else [])]
    files = paths and all(path.split("::")[0].endswith(".py") for path in paths)
    if not files and (cores or os.cpu_count() or 1) >= 2:
        command += ["-n", "2", "--dist", "loadfile"]
    return command
