"""Jobs are queued here and never run: no test of this folder starts a worker."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_worker(no_worker):
    pass
