"""What the page's process loads before its first answer."""

from __future__ import annotations

import subprocess
import sys

from tests.app.conftest import ROOT

SECONDS = ("torchvision", "torch._dynamo", "sklearn", "scipy.stats", "umap", "matplotlib")


def test_the_routes_start_without_what_takes_seconds_to_load():
    """Trainings, maps and figures load these where they are asked for."""
    look = f"print([m for m in {SECONDS} if m in sys.modules])"
    code = f"import sys; import app.routes; app.routes.router_modules(); {look}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
