"""bf16 is chosen where the arithmetic is native, never where it is emulated; freed memory is kept."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from core.engine import tensors


@pytest.mark.parametrize("native", [True, False])
def test_a_card_that_emulates_bf16_is_given_float32(monkeypatch, native):
    def is_supported(including_emulation: bool = True) -> bool:
        return native or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert tensors.gains_by_bf16(torch.device("cuda")) is native


def test_a_processor_without_bf16_is_given_float32(monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert not tensors.gains_by_bf16(torch.device("cpu"))


COUNT = """
import resource
from core.engine.tensors import keep_freed_memory
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
