"""Freed memory is kept: a second array of the same size asks the system for nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

COUNT = """
import resource
from core.engine.allocator import keep_freed_memory
if {keep}: assert keep_freed_memory()
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step(): return [b"x" * (8 << 20) for _ in range(20)]
step()
before = faults()
for _ in range(3): step()
print(faults() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_pages_are_asked_for_once():
    def count(keep: bool) -> int:
        line = [sys.executable, "-c", COUNT.format(keep=keep)]
        return int(subprocess.run(line, capture_output=True, text=True, check=True).stdout)

    assert 10 * count(True) < count(False)
