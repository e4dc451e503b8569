"""What the page's process loads before its first answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.app.conftest import ROOT

SECONDS = ("torchvision", "torch._dynamo", "sklearn", "scipy.stats", "umap", "matplotlib")


def loaded(code: str, *modules: str) -> str:
    """Which of `modules` a fresh Python has after `code`."""
    code = f"import sys; {code}; print([m for m in {modules} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr


@pytest.mark.long
def test_the_routes_start_without_what_takes_seconds_to_load():
    """Trainings, maps and figures load these where they are asked for."""
    assert loaded("import app.routes; app.routes.routers()", *SECONDS) == "[]"


@pytest.mark.slow
def test_decisions_need_neither_torch_nor_the_page():
    assert loaded("import app.routes.reviews", "torch", "gradio", *SECONDS) == "[]"
