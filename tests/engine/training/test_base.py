"""Optimisers are put back as they were."""

from __future__ import annotations

import pytest
import torch

from core.engine.training.base import optimiser_state, restore_optimiser


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_optimiser_goes_on_bit_for_bit(kind):
    def build():
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        extra = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        return net, kind(net.parameters(), lr=0.01, **extra)

    def step(net, optimiser, seed):
        x = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(seed))
        optimiser.zero_grad()
        net(x).square().mean().backward()
        optimiser.step()

    (one, first), (two, second) = build(), build()
    for seed in range(3):
        step(one, first, seed)
    two.load_state_dict(one.state_dict())
    restore_optimiser(second, optimiser_state(first))
    for seed in range(3, 6):
        step(one, first, seed), step(two, second, seed)
    assert torch.equal(one.weight, two.weight)
    kept = next(iter(v for v in second.state_dict()["state"][0].values() if v is not None and v.ndim == 4))
    assert kept.is_contiguous(memory_format=torch.channels_last)
