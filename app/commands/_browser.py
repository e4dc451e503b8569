"""A browser for the tests: Playwright's own, else Debian's Chromium; installed when there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from app.commands._common import UserError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def present() -> str | None:
    """Path of a browser that is there and starts."""
    candidates = [os.environ.get("PMSACL_BROWSER"), _playwrights(), *map(shutil.which, NAMES)]
    return next((path for path in candidates if path and _starts(path)), None)


def find_browser(report: Callable[[str], None]) -> str:
    """The browser's path, installed if need be. UserError (status 1) when none can be had: the tests must not skip."""
    found = present()
    if found:
        return found
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
        found = present()
        if found:
            return found
    raise UserError(
        "the page's tests need a browser and none could be had: install one (Debian: apt-get install chromium), "
        "or name one in the environment variable PMSACL_BROWSER",
        1,
    )


def _playwrights() -> str | None:
    """Where Playwright would have put its Chromium."""
    code = "from playwright.sync_api import sync_playwright as s\nwith s() as p: print(p.chromium.executable_path)"
    try:
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    path = found.stdout.strip()
    return path if path and os.path.exists(path) else None


def _starts(path: str) -> bool:
    try:
        version = subprocess.run([path, "--version", "--no-sandbox"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return version.returncode == 0
