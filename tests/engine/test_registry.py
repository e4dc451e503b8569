"""Members of a registry are all there for whoever asks first, and for whoever asks at the same time."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from core.engine.registry import Registry

SLOW = """
from tests.engine import test_registry as test

test.begun.set()
test.asked_again.wait(0.5)
test.registry.register("slow")(object)
"""
begun, asked_again = threading.Event(), threading.Event()
registry = Registry("part", "parts_of_a_test")


def test_who_asks_while_the_members_are_imported_waits_for_them(tmp_path, monkeypatch):
    package = tmp_path / "parts_of_a_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "slow.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(registry.names)
        assert begun.wait(10)
        second = pool.submit(registry.names)
        second.add_done_callback(lambda _: asked_again.set())
        assert first.result(10) == second.result(10) == ["slow"]
    for name in [name for name in sys.modules if name.startswith("parts_of_a_test")]:
        monkeypatch.delitem(sys.modules, name)
