"""Growths: drawn lesions keep the promises of every strong augmentation."""

import pytest
import torch

from core.engine.augment.growth import GROWTH_PRESETS, Growth, GrowthConfig
from core.engine.config import BadConfig


def frames(batch=6, side=48):
    return 0.2 + 0.6 * torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(3))


def grow(preset="growth", n=2, roi=None, seed=5):
    x = frames()
    return x, Growth(GROWTH_PRESETS[preset])(x, n, torch.Generator().manual_seed(seed), roi)


@pytest.mark.parametrize("preset", GROWTH_PRESETS)
def test_only_what_is_marked_changes(preset):
    x, mixed = grow(preset)
    changed = (mixed.images - x).abs().amax(1) > 0
    assert changed.any()
    assert not (changed & ~mixed.masks).any()
    assert mixed.images.min() >= 0 and mixed.images.max() <= 1
    assert torch.equal(mixed.masks, mixed.alpha > 0)


def test_no_lesion_leaves_the_image_as_it_is():
    x = frames()
    mixed = Growth()(x, torch.tensor([0, 1, 0, 2, 0, 3]), torch.Generator().manual_seed(0))
    for i in (0, 2, 4):
        assert torch.equal(mixed.images[i], x[i]) and not mixed.masks[i].any()
    for i in (1, 3, 5):
        assert not torch.equal(mixed.images[i], x[i])
    assert mixed.count.tolist() == [0, 1, 0, 2, 0, 3]


def test_a_seed_gives_the_same_growths():
    _, first = grow()
    _, again = grow()
    _, other = grow(seed=6)
    assert torch.equal(first.images, again.images) and torch.equal(first.boxes, again.boxes)
    assert not torch.equal(first.images, other.images)


def test_growths_stay_in_the_region_of_interest():
    roi = torch.zeros(6, 48, 48, dtype=torch.uint8)
    roi[:, 10:40, 8:30] = 1
    x, mixed = grow(n=3, roi=roi)
    outside = roi[:, None].expand_as(x) == 0
    assert torch.equal(mixed.images[outside], x[outside])
    assert mixed.masks.any()


def test_a_dome_is_lit_from_one_side():
    """A hemisphere on a grey ground, lit aslant: its own shading must span more than the ground does."""
    config = GrowthConfig(
        radius=(0.3, 0.3), irregular=0.0, height=(1.0, 1.0), tint=0.0, texture=0.0, shadow=0.0, shine=0.0
    )
    ground = torch.full((1, 3, 64, 64), 0.5)
    mixed = Growth(config)(ground, 1, torch.Generator().manual_seed(1))
    body = mixed.images[0, 0][mixed.alpha[0] > 0.9]
    assert body.max() - body.min() > 0.1


def test_impossible_ranges_are_refused():
    with pytest.raises(BadConfig, match="radius"):
        GrowthConfig(radius=(0.3, 0.1))
    with pytest.raises(ValueError, match="n must be"):
        Growth()(frames(), 4, torch.Generator())
