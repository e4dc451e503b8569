"""Verbs that open the page, on any study or on the demo study of synthetic images: app, demo."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser

from app.commands._common import UserError, arg, finish, open_to_compute, say, verb

WINDOWED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "brave-browser")


@verb(
    "app",
    arg("--port", type=int, default=7860),
    arg("--host", default="127.0.0.1"),
    arg("--readers", action="store_true", help="readers must sign in with their accounts"),
    arg("--window", action="store_true", help="open a separate window instead of a browser tab"),
    arg(
        "--demo",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="open the prepared demo study if the home has no study yet",
    ),
    arg("--no-browser", action="store_true", help="do not open a browser"),
    arg("--stop-jobs", action="store_true", help="pause all jobs at a checkpoint when the app is closed"),
    arg(
        "--proxy",
        action="store_true",
        help="requests come from a reverse proxy on this machine, which sets X-Forwarded-For and X-Forwarded-Proto",
    ),
)
def run_app(args) -> int:
    """Open the page (the default)."""
    return open_page(args)


def open_page(args, tour: bool = False, demo_study: bool = False) -> int:
    """Serves the page until it is interrupted or its window is closed, and returns 0.

    The page opens with the guided tour if `tour` is True, and on the demo study if `demo_study` is True.
    """
    from core.studio.demo import study as demo
    from core.studio.demo import tour as guided
    from core.studio.jobs import queue as jobs

    store = open_to_compute(args)
    store.set_setting("device", args.device)
    if tour:
        guided.prepare(store, args.device, wake=False)
    demo_study = demo_study or (getattr(args, "demo", False) and demo.is_fresh(store))
    if demo_study:
        demo.offer(store, args.device)
    jobs.ensure_worker(store)  # also starts jobs that an earlier session left queued
    from app.server import serve

    window, stop_jobs = getattr(args, "window", False), getattr(args, "stop_jobs", False)
    browser = _window_browser() if window else None
    if window and browser is None:
        say(args, "No Chromium, Chrome or Edge found for a separate window; using the default browser")

    def ready(url: str) -> None:
        address = url + ("tour" if tour else "?study=demo&tab=review" if demo_study else "")
        say(
            args,
            f"PMSACL Studio is at {address}\nPress Ctrl-C to close it; jobs {'pause' if stop_jobs else 'continue'}",
        )
        if args.json:
            finish(args, {"url": address, "home": str(store.home.path), "pid": os.getpid()})
        if not getattr(args, "no_browser", False):
            show = (lambda: _window(browser, address)) if browser else (lambda: webbrowser.open(address))

            def open_when_up() -> None:
                _until_up(url)
                show()

            threading.Thread(target=open_when_up, daemon=True).start()

    host, port = getattr(args, "host", "127.0.0.1"), getattr(args, "port", 7860)
    try:
        serve(
            store.home, host, port, not getattr(args, "readers", False), ready, stop_jobs,
            lambda text: say(args, text), getattr(args, "proxy", False),
        )  # fmt: skip
    except OSError as error:
        raise UserError(f"cannot serve: {error.strerror or error}; choose another --port", 1) from None
    except KeyboardInterrupt:
        pass
    return 0


def _window_browser() -> str | None:
    if sys.platform == "darwin":
        mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
        return mac if os.path.exists(mac) else None
    return next(filter(None, map(shutil.which, WINDOWED)), None)


def _window(browser: str, address: str) -> None:
    """Shows the page in a browser window with its own profile. Closing the window closes the studio."""
    with tempfile.TemporaryDirectory(prefix="pmsacl-window-", ignore_cleanup_errors=True) as profile:
        options = [f"--app={address}", f"--user-data-dir={profile}", "--no-first-run", "--no-default-browser-check"]
        options += ["--disable-sync", "--disable-background-networking", "--window-size=1440,900"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--no-sandbox")  # Chromium refuses to run as root in its sandbox
        status = subprocess.call([browser, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if status == 0:
        os.kill(os.getpid(), 2)  # like Ctrl-C: the server shuts down cleanly
    else:
        webbrowser.open(address)


def _until_up(url: str, seconds: float = 60) -> None:
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            opener.open(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)


@verb("demo", arg("--show", action="store_true", help="show the guided tour of the page (six minutes)"))
def run_demo(args) -> int:
    """Open the page with the prepared demo study."""
    return open_page(args, tour=args.show, demo_study=not args.show)
