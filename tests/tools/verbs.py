"""The verbs `test` and `bench`, which `launch.py` offers in a clone of the source."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from app.commands._common import UserError, arg, finish, one_of, say, verb


@dataclasses.dataclass(frozen=True)
class Tier:
    """A selection of tests. markers: pytest's expression (pyproject.toml); minutes: the most that two cores may take.

    alone: describes the tests of a tier that is run separately, without the checks.
    """

    markers: str
    minutes: int | None = None
    alone: str = ""


CHECKS: Mapping[str, list[str]] = {
    "ruff check": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "scripts, style": [sys.executable, "-m", "tests.tools.scripts", "style"],
    "scripts, types": [sys.executable, "-m", "tests.tools.scripts", "types"],
    "scripts, tests": [sys.executable, "-m", "tests.tools.scripts", "tests"],
}
QUICK = ("ruff check", "ruff format")  # the checks of --quick
ROOT = Path(__file__).resolve().parents[2]
TIERS = {
    "quick": Tier("not browser and not slow and not long and not longest", 2),
    "default": Tier("not long and not longest", 12),
    "long": Tier("long and not longest", alone="tests that take seconds to half a minute each"),
    "longest": Tier("longest", alone="tests that take half a minute or more"),
    "all": Tier(""),
}
FLAGS = {  # of `test`: help
    "quick": f"without a browser and slow tests: {TIERS['quick'].minutes} minutes on two cores",
    "all": f"all tests; without a flag those that are not long, {TIERS['default'].minutes} minutes on two cores",
    **{name: f"only {tier.alone}" for name, tier in TIERS.items() if tier.alone},
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest(paths: list[str], expression: str | None = None, tier: str = "all", cores: int | None = None) -> list[str]:
    """Returns the command that runs the tests of a tier below `paths` (none: all), by two processes on two cores.

    A file's tests stay in one process: they share the home and the server that the file's fixtures make.
    """
    command = [sys.executable, "-m", "pytest", *paths, *(["-k", expression] if expression else [])]
    if TIERS[tier].markers:
        command += ["-m", TIERS[tier].markers]
    files = paths and all(path.split("::")[0].endswith(".py") for path in paths)
    if not files and (cores or os.cpu_count() or 1) >= 2:
        command += ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]  # in the order of tests/conftest.py
    return command


def present() -> str | None:
    """Returns the path of a browser that is there and starts, or None."""
    candidates = [os.environ.get("PMSACL_BROWSER"), _playwrights(), *map(shutil.which, BROWSERS)]
    return next((path for path in candidates if path and _starts(path)), None)


def find_browser(report: Callable[[str], None]) -> str:
    """Returns the path of a browser, which is installed if necessary.

    Raises UserError (status 1) if none can be installed: the tests must not be skipped.
    """
    program = present()
    if program:
        return program
    report("Downloading Playwright's Chromium")
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        # Its libraries come from Debian anyway, so as root Debian's own browser is the surer way, tried second.
        tries = [command, ["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "chromium"]]
    else:
        tries = [command]
    for attempt in tries:
        try:
            subprocess.run(attempt, stdout=sys.stderr, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            report(f"{attempt[0]}: {error}")
        program = present()
        if program:
            return program
    raise UserError(
        "the page's tests need a browser and none could be installed: install one (Debian: apt-get install chromium), "
        "or name one in the environment variable PMSACL_BROWSER",
        1,
    )


def _playwrights() -> str | None:
    """Returns where Playwright has installed its Chromium, or None."""
    code = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    try:
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    path = answer.stdout.strip()
    return path if path and os.path.exists(path) else None


def _starts(path: str) -> bool:
    try:
        version = subprocess.run([path, "--version", "--no-sandbox"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return version.returncode == 0


@verb(
    "test",
    arg("paths", nargs="*", help="only the tests in these files or folders, without the checks"),
    arg("-k", metavar="EXPRESSION", help="only tests whose names match, without the checks"),
    one_of(
        *(arg(f"--{name}", dest="tier", action="store_const", const=name, help=help) for name, help in FLAGS.items())
    ),
)
def run_test(args) -> int:
    """Check style and types and run every test; installs a browser if needed.

    Named files, folders and expressions run whole, unless --quick is given.
    """
    named = bool(args.paths or args.k)
    tier = args.tier or ("all" if named else "default")
    started = time.monotonic()
    # One thread each: the processes share the cores. A caller's own setting stays.
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    browser = None
    if tier != "quick":
        browser = environment["PMSACL_BROWSER"] = find_browser(lambda text: say(args, text))
        say(args, f"Browser: {browser}")

    def passes(command: list[str]) -> bool:
        return subprocess.call(command, cwd=ROOT, env=environment, stdout=sys.stderr if args.json else None) == 0

    checks = {}
    for name in () if named or TIERS[tier].alone else QUICK if tier == "quick" else CHECKS:
        say(args, f"{name}:")
        checks[name] = passes(CHECKS[name])
    tested = passes(pytest(args.paths, args.k, tier))
    failed = [name for name, ok in checks.items() if not ok] + ["pytest"] * (not tested)
    seconds = round(time.monotonic() - started)
    finish(args, {"passed": not failed, "browser": browser, "checks": checks, "tier": tier, "seconds": seconds})
    minutes = TIERS[tier].minutes
    if minutes and not named:
        say(args, f"{seconds} s; two cores are to take at most {60 * minutes}")
    if failed:
        say(args, f"Not passed: {', '.join(failed)}")
    return 1 if failed else 0


@verb(
    "bench",
    arg("name", nargs="?", help="a benchmark, or all that have an aim"),
    arg("--only", action="append", metavar="PART", help="part of a long one, or one of all (repeatable)"),
    arg("--seconds", type=float, help="how long to measure, where the benchmark has a length"),
    arg("--soak", action="store_true", help="an hour at a lower rate (load)"),
    arg("--decisions", type=int, help="without pauses until so many, for the server's memory (load)"),
    arg("--data", metavar="FOLDER", help="the images, where the benchmark needs some of its own"),
    arg("--quick", action="store_true", help="a smaller measurement, to see that it works"),
)
def run_bench(args) -> int:
    """Run a benchmark by name, or list them."""
    from tests import benches as bench

    if args.name is None:
        titles = bench.titles()
        for name, title in titles.items():
            say(args, f"{name:16} {title}")
        return finish(args, {"benches": titles})
    if args.name == "all":
        result = bench.run_all(args.quick, args.device, args.only)
        for row in result["benches"]:
            aim = f"{'at least' if row['at_least'] else 'at most'} {row['aim']:g}"
            figure = row.get("error") or f"{row['figure']} {row[row['figure']]:.3g}"
            say(args, f"{row['name']:16} {figure} (aim: {aim}){'' if row['met'] else ', not met'}")
        return finish(args, result)
    result = bench.run(
        args.name, args.quick, args.device, args.only, args.seconds, args.soak, args.data, args.decisions
    )
    for key, value in result.items():
        say(args, f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
    return finish(args, result)
