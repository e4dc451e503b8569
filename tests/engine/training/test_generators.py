"""Draws follow from the seed, the purpose and the step."""

from __future__ import annotations

import pytest
import torch

from core.engine.training.base import generator


def first(*numbers):
    return float(torch.rand(1, generator=generator(*numbers)))


def test_each_seed_purpose_and_step_has_draws_of_its_own():
    assert first(1, 2, 3) == first(1, 2, 3)
    assert len({first(s, p, i) for s in range(3) for p in range(3) for i in range(20)}) == 180


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError):
        generator(-1, 0)
