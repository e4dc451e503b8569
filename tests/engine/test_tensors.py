"""bf16 is chosen where the arithmetic is native, never where it is emulated."""

from __future__ import annotations

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
