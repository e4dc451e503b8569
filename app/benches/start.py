"""From the verb to a page that answers, against importing torch and gradio alone."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300.0  # seconds


def run(quick: bool = False) -> dict[str, Any]:
    """Medians of 5 (quick: 1). "over_import": seconds beyond those of the imports; "ratio": to those of the imports."""
    rounds = 1 if quick else 5
    pages, imports = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch, gradio"], check=True, cwd=ROOT)
        imports.append(time.perf_counter() - started)
        pages.append(_until_answered())
    page, bare = (sorted(times)[rounds // 2] for times in (pages, imports))
    return {"bench": "start", "ratio": page / bare, "over_import": page - bare, "page": page, "imports": bare}


def _until_answered() -> float:
    """Seconds from the command to the first page."""
    with tempfile.TemporaryDirectory() as home, opened(home) as (_, seconds):
        return seconds


@contextmanager
def opened(home: str, *options: str) -> Iterator[tuple[str, float]]:
    """The page's address and the seconds from the command to its first answer; the server ends with the context."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    line = [sys.executable, "launch.py", "app", "--home", home, "--port", str(port), "--no-browser", *options]
    started = time.perf_counter()
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(url):
            if time.perf_counter() - started > PATIENCE:
                raise RuntimeError(f"no page after {PATIENCE:.0f} s")
            time.sleep(0.02)
        yield url, time.perf_counter() - started
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            answer.read()
            return True
    except OSError:
        return False
