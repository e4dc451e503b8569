"""Rotation, permutation, cutout, noise and CutMix, each against a slow reference, and the interface all share."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from core.engine.augment.comparators import (
    CutMix,
    CutMixConfig,
    Cutout,
    CutoutConfig,
    Noise,
    NoiseConfig,
    Permutation,
    PermutationConfig,
    Rotation,
    RotationConfig,
    permutations,
)
from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.medmix import reference
from core.engine.augment.medmix.medmix import MedMix
from core.engine.registry import STRONG
from tests.engine.augment.pictures import classes, seeded, tissue

COUNTS = torch.tensor([0, 1, 2, 3, 3, 2])


def region(count: int, side: int) -> torch.Tensor:
    roi = torch.zeros(count, side, side, dtype=torch.uint8)
    roi[:, side // 8 : -side // 8, side // 8 :] = 1
    return roi


@pytest.mark.parametrize("name", STRONG.names())
def test_the_shared_interface(name):
    strong, x = STRONG.get(name)(), tissue(6, 32)
    kept = x.clone()
    mixed = strong(x, COUNTS, seeded(1))
    assert torch.equal(x, kept)
    assert mixed.images.shape == x.shape and mixed.images.dtype == x.dtype
    assert mixed.masks.shape == (6, 32, 32) and mixed.masks.dtype == torch.bool
    assert torch.equal(mixed.count, COUNTS)
    assert torch.equal(mixed.images[0], x[0]) and not mixed.masks[0].any()
    changed = (mixed.images != x).any(1)
    assert not (changed & ~mixed.masks).any()
    assert all(changed[b].any() for b in range(1, 6))
    assert mixed.images.min() >= 0 and mixed.images.max() <= 1
    assert torch.equal(mixed.images, strong(x, COUNTS, seeded(1)).images)
    with pytest.raises(ValueError, match="n must be"):
        strong(x, 4, seeded())


@pytest.mark.parametrize("name", ["cutmix", "cutout", "growth", "medmix", "noise"])
def test_only_the_region_of_interest_changes(name):
    x, roi = tissue(6, 32), region(6, 32)
    mixed = STRONG.get(name)()(x, 2, seeded(2), roi)
    changed = (mixed.images != x).any(1)
    assert changed.any() and not changed[roi == 0].any() and not mixed.masks[roi == 0].any()


def test_rotation():
    x = tissue(4, 20)
    images = Rotation()(x, torch.arange(4), seeded()).images.numpy()
    for n in range(4):
        assert np.array_equal(images[n], np.stack([np.rot90(c, n) for c in x[n].numpy()]))


def test_rotation_by_odd_angles():
    """Each pixel is read where the turned grid points, bilinearly."""
    x, k = tissue(1, 21), 4
    image = Rotation(RotationConfig(k=k))(x, 1, seeded()).images[0].numpy()
    angle, middle = 2 * np.pi / (k + 1), 10
    for i, j in itertools.product(range(5, 16), range(5, 16)):
        v, u = i - middle, j - middle
        # an anticlockwise turn on screen, rows pointing down
        y, z = middle + np.sin(angle) * u + np.cos(angle) * v, middle + np.cos(angle) * u - np.sin(angle) * v
        a, b, p, q = int(y), int(z), y - int(y), z - int(z)
        c = x[0].numpy()
        top = (1 - q) * c[:, a, b] + q * c[:, a, b + 1]
        low = (1 - q) * c[:, a + 1, b] + q * c[:, a + 1, b + 1]
        np.testing.assert_allclose(image[:, i, j], (1 - p) * top + p * low, atol=1e-4)


@pytest.mark.parametrize(("side", "tiles", "k"), [(16, 2, 3), (17, 2, 7), (20, 3, 3)])
def test_permutation(side, tiles, k):
    x, edge = tissue(k + 1, side), side // tiles
    images = Permutation(PermutationConfig(k=k, tiles=tiles))(x, torch.arange(k + 1), seeded()).images
    orders = permutations(tiles * tiles, k + 1)
    for n, order in enumerate(orders):
        expected = x[n].clone()
        for place, tile in enumerate(order):
            to = [edge * v for v in divmod(place, tiles)]
            of = [edge * v for v in divmod(tile, tiles)]
            expected[:, to[0] : to[0] + edge, to[1] : to[1] + edge] = x[n][
                :, of[0] : of[0] + edge, of[1] : of[1] + edge
            ]
        assert torch.equal(images[n], expected)


def test_permutations_are_far_apart():
    chosen = permutations(4, 4)
    assert chosen[0] == (0, 1, 2, 3) and len(set(chosen)) == 4
    assert all(sum(a != b for a, b in zip(p, q, strict=True)) == 4 for p, q in itertools.combinations(chosen, 2))


@pytest.mark.parametrize("fill", ["mean", "black", "grey"])
def test_cutout(fill):
    x = tissue(6, 40)
    mixed = Cutout(CutoutConfig(fill=fill))(x, COUNTS, seeded(4))
    for b, n in enumerate(COUNTS.tolist()):
        expected = x[b].clone()
        colour = {"mean": x[b].mean((1, 2)), "black": torch.zeros(3), "grey": torch.full((3,), 0.5)}[fill]
        holes = [box for box in mixed.boxes[b].tolist() if box[2] > 0]
        assert len(holes) == n
        for y0, x0, y1, x1 in holes:
            assert y1 - y0 == x1 - x0 >= 5
            expected[:, y0:y1, x0:x1] = colour[:, None, None]
        torch.testing.assert_close(mixed.images[b], expected)
        assert mixed.masks[b].sum() == sum((b2 - b0) * (b3 - b1) for b0, b1, b2, b3 in holes), "holes overlap"


def test_noise():
    x = tissue(6, 12)
    mixed = Noise(NoiseConfig(sigma=0.05))(x, COUNTS, seeded(9))
    seeds = torch.randint(2**31 - 1, (6,), generator=seeded(9)).tolist()
    for b, n in enumerate(COUNTS.tolist()):
        grain = np.stack([reference.normal(seeds[b], *np.indices((12, 12)), c) for c in range(3)])
        expected = (x[b].double() + 0.05 * n * torch.from_numpy(grain)).clamp(0, 1)
        torch.testing.assert_close(mixed.images[b].double(), expected, atol=1e-5, rtol=0)


def test_cutmix():
    x = tissue(6, 40)
    mixed = CutMix(CutMixConfig(area=(0.2, 0.4)))(x, COUNTS, seeded(4))
    for b, n in enumerate(COUNTS.tolist()):
        expected, boxes = x[b].clone(), [box for box in mixed.boxes[b].tolist() if box[2] > 0]
        assert len(boxes) == n
        for i, (y0, x0, y1, x1) in enumerate(boxes):
            donor = int(mixed.donors[b, i])
            assert donor != b
            expected[:, y0:y1, x0:x1] = x[donor, :, y0:y1, x0:x1]
            assert 0.15 < n * (y1 - y0) * (x1 - x0) / 1600 < 0.45
        assert torch.equal(mixed.images[b], expected)


def test_classes():
    x = tissue(4, 32)
    images, masks = classes(MedMix(MEDMIX_PRESETS["quick"]), x, seeded(6))
    assert images.shape == (4, 4, 3, 32, 32) and masks.shape == (4, 4, 32, 32)
    assert torch.equal(images[:, 0], x) and not masks[:, 0].any()
    assert not ((images != x[:, None]).any(2) & ~masks).any()
    area = masks.float().mean((0, 2, 3))
    assert area[0] < area[1] < area[2] < area[3]
    generator = seeded(6)
    for n in range(1, 4):
        alone = MedMix(MEDMIX_PRESETS["quick"])(x, n, generator).images
        torch.testing.assert_close(images[:, n], alone, atol=1e-5, rtol=0)
