"""Jobs are queued here and never run: no test of this folder starts a worker."""

import pytest


@pytest.fixture(autouse=True)
def _no_worker(no_worker):
    pass
