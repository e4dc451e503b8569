"""A grey image stays grey under every augmentation: colour added by one class would give that class away."""

from __future__ import annotations

import pytest
import torch

from core.engine.augment.colour import grey_images
from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS
from core.engine.augment.growth import GROWTH_PRESETS, Growth
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.weak import WeakViews
from core.engine.registry import STRONG
from tests.engine.augment.pictures import seeded, tissue


def grey(count: int = 6, side: int = 48) -> torch.Tensor:
    return tissue(count, side)[:, :1].expand(-1, 3, -1, -1).contiguous()


def assert_grey(images: torch.Tensor) -> None:
    spread = images.amax(1) - images.amin(1)
    assert spread.max() < 1e-6


def test_grey_differs_from_colour_at_one_pixel():
    x = grey()
    x[1, 2, 40, 7] += 1 / 255
    x[3, 1, 0, 0] += 1 / 255
    assert grey_images(x).tolist() == [True, False, True, False, True, True]


@pytest.mark.parametrize("name", [n for n in STRONG.names() if n != "medmix"])
def test_strong_augmentations(name):
    x = grey()
    images = STRONG.get(name)()(x, torch.arange(6) % 4, seeded(1)).images
    assert not torch.equal(images, x)
    assert_grey(images)


@pytest.mark.parametrize("name", sorted(MEDMIX_PRESETS))
def test_medmix(name):
    loud = MEDMIX_PRESETS[name].replace(p_noise=1.0, p_jitter=1.0, noise_colour=True, jitter=(0.4, 0.4, 0.4, 0.3))
    x = grey()
    images = MedMix(loud)(x, 3, seeded(2)).images
    assert not torch.equal(images, x)
    assert_grey(images)
    assert not grey_images(MedMix(loud)(tissue(6, 48), 3, seeded(2)).images).any()


def test_lesions_cut_from_a_study_in_colour():
    config = MEDMIX_PRESETS["foreign"]
    images = MedMix(config, tissue(5, 48, seed=3))(grey(), 3, seeded()).images
    assert_grey(images)


@pytest.mark.parametrize("name", sorted(GROWTH_PRESETS))
def test_growths(name):
    images = Growth(GROWTH_PRESETS[name])(grey(), 3, seeded()).images
    assert_grey(images)
    assert not grey_images(Growth(GROWTH_PRESETS[name])(tissue(6, 48), 3, seeded()).images).any()


@pytest.mark.parametrize("name", sorted(WEAK_PRESETS))
def test_weak_views(name):
    mixed = torch.cat([grey(6), tissue(6, 48)])
    views = WeakViews(WEAK_PRESETS[name].replace(p_jitter=1.0, p_grey=0.0))(mixed, seeded())
    assert_grey(views[:6])
    assert not grey_images(views[6:]).any()
