"""Growths beyond what holds for every strong augmentation (test_strong.py): each preset, and the light."""

import pytest
import torch

from core.engine.augment.growth import GROWTH_PRESETS, Growth, GrowthConfig
from core.engine.config import BadConfig
from tests.engine.augment.pictures import seeded, tissue


@pytest.mark.parametrize("preset", GROWTH_PRESETS)
def test_only_what_is_marked_changes(preset):
    x = tissue(6, 48)
    mixed = Growth(GROWTH_PRESETS[preset])(x, 2, seeded(5))
    changed = (mixed.images - x).abs().amax(1) > 0
    assert changed.any()
    assert not (changed & ~mixed.masks).any()
    assert mixed.images.min() >= 0 and mixed.images.max() <= 1
    assert torch.equal(mixed.masks, mixed.alpha > 0)


def test_a_dome_is_lit_from_one_side():
    """A hemisphere on a grey ground, lit aslant: its own shading must span more than the ground does."""
    config = GrowthConfig(
        radius=(0.3, 0.3), irregular=0.0, height=(1.0, 1.0), tint=0.0, texture=0.0, shadow=0.0, shine=0.0
    )
    ground = torch.full((1, 3, 64, 64), 0.5)
    mixed = Growth(config)(ground, 1, seeded(1))
    body = mixed.images[0, 0][mixed.alpha[0] > 0.9]
    assert body.max() - body.min() > 0.1


def test_impossible_ranges_are_refused():
    with pytest.raises(BadConfig, match="radius"):
        GrowthConfig(radius=(0.3, 0.1))
