"""Imports in the background: progress, an end by themselves, an end by a person."""

import threading

import pytest

from core.studio.ingest.background import Imports
from tests.conftest import wait


def test_an_import_is_stopped_at_its_next_image(store):
    imports, go, seen = Imports(store), threading.Event(), []

    def work(progress):
        for i in range(1, 4):
            progress(i, 3)
            seen.append(i)
            assert go.wait(60)
        return {"study": "all of it"}

    token = imports.start(work, "one")
    wait(lambda: seen)
    assert imports.state(token)["state"] == "running" and imports.state(token)["done"] == 1
    imports.stop(token)
    go.set()
    wait(lambda: imports.state(token)["state"] == "failed")
    assert "stopped" in imports.state(token)["error"] and seen == [1]
    with pytest.raises(ValueError, match="not known"):
        imports.stop("another")
