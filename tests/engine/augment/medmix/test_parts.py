"""Colour, hashed noise, placement and the schedule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from core.engine.augment.colour import PLAIN, apply_colour, colour_map, hashed_normal, jitter_factors
from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.medmix import reference
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.placement import GAP, RoiSampler, layers, place_all, sides
from tests.engine.augment.pictures import seeded, tissue


def test_colour_as_one_map_is_the_chain_in_any_order():
    x = tissue(16, 9)
    drawn = jitter_factors(torch.rand(16, 4, generator=seeded()).numpy(), (0.8, 0.8, 0.8, 0.3))
    factors = torch.from_numpy(drawn)
    ours = apply_colour(x, *colour_map(factors), x.mean((2, 3)))
    for order in itertools.permutations(range(4)):
        for b in range(16):
            theirs = reference.jitter(x[b].double().numpy(), drawn[b], order)
            np.testing.assert_allclose(ours[b].numpy(), theirs, atol=2e-5)
    plain = torch.from_numpy(PLAIN).expand(16, 4)
    torch.testing.assert_close(apply_colour(x, *colour_map(plain), x.mean((2, 3))), x, atol=1e-5, rtol=0)
    grey = apply_colour(x, *colour_map(factors, torch.arange(16) < 8), x.mean((2, 3)))
    assert torch.equal(grey[:8, 0], grey[:8, 2]) and torch.equal(grey[8:], ours[8:])


def test_hue_keeps_greys_and_comes_round():
    grey = torch.full((1, 3, 1), 0.4)
    turned = colour_map(torch.tensor([[1.0, 1.0, 1.0, 0.3], [1.0, 1.0, 1.0, 1 / 3]]))[0]
    torch.testing.assert_close(turned[:1] @ grey, grey, atol=1e-5, rtol=0)
    torch.testing.assert_close(turned[1] @ turned[1] @ turned[1], torch.eye(3), atol=1e-4, rtol=0)


def test_hashed_noise_is_normal_white_and_a_function_of_its_place():
    at = torch.arange(-40, 60)[None].expand(8, -1)
    seeds = torch.arange(8) * 1234567
    noise = hashed_normal(seeds, at, at)
    assert noise.shape == (8, 3, 100, 100)
    assert noise.mean().abs() < 0.01 and (noise.std() - 1).abs() < 0.01
    assert (noise.square().square().mean() - 3).abs() < 0.1
    for a, b in ((noise[:, :, 1:], noise[:, :, :-1]), (noise[..., 1:], noise[..., :-1]), (noise[1:], noise[:-1])):
        assert (a * b).mean().abs() < 0.02
    assert (noise[:, 0] * noise[:, 1]).mean().abs() < 0.02
    part = hashed_normal(seeds[3:4], at[:1, 10:20], at[:1, 30:50])
    assert torch.equal(part[0], noise[3, :, 10:20, 30:50])
    assert (
        abs(float(noise[2, 1, 50, 7]) - reference.normal(int(seeds[2]), np.array([10]), np.array([-33]), 1)[0]) < 1e-4
    )


def test_sizes_are_even_in_pixels_or_in_their_logarithm():
    u = torch.rand(20_000, 2, generator=seeded()).numpy()
    for even_ratio, middle in ((False, (0.02 + 0.5) / 2), (True, (0.02 * 0.5) ** 0.5)):
        hw = sides(u, (0.02, 0.5), 2.0, 1000, even_ratio)
        mean = np.sqrt(hw.prod(1))
        assert mean.min() >= 19 and mean.max() <= 501
        assert abs((mean < 1000 * middle).mean() - 0.5) < 0.02
        assert (hw[:, 0] / hw[:, 1]).max() < 2.2


@pytest.mark.parametrize("with_roi", [False, True])
def test_placement(with_roi):
    roi = None
    if with_roi:
        roi = torch.zeros(40, 128, 128)
        roi[:, 20:110, 40:100] = 1
        roi[::2, 60:110, 40:70] = 0
    u, lengths = torch.rand(40, 4, 24, 2, generator=seeded()).numpy(), np.full((40, 4, 2), 30, np.float32)
    boxes = place_all(np.arange(40), np.full(40, 4), u, lengths, RoiSampler(roi, 128), 0.95, apart=True)
    assert (boxes[..., :2] >= 0).all() and (boxes[..., :2] + boxes[..., 2:] <= 128).all()
    for image, four in enumerate(boxes.tolist()):
        painted = np.zeros((128 + GAP, 128 + GAP), int)
        for y, x, h, w in four:
            painted[y : y + h + 1, x : x + w + 1] += 1
            if with_roi:
                assert roi[image, y : y + h, x : x + w].mean() > 0.7
        assert painted.max() == 1, "boxes must be apart"
    centres = (boxes[..., :2] + boxes[..., 2:] / 2).reshape(-1, 2)
    assert centres.std(0).min() > (8 if with_roi else 20), "places must vary"


def test_without_a_region_places_are_even():
    u = torch.rand(4000, 1, 24, 2, generator=seeded()).numpy()
    lengths, sampler = np.full((4000, 1, 2), 14, np.float32), RoiSampler(None, 64)
    boxes = place_all(np.arange(4000), np.ones(4000, int), u, lengths, sampler, 0.95, apart=False)
    counts = np.bincount(boxes[:, 0, 0], minlength=51)
    assert len(counts) == 51 and ((counts - 4000 / 51) ** 2 / (4000 / 51)).sum() < 90  # chi square, 50 degrees


def test_lesions_of_a_layer_lie_apart_and_above_what_they_cover():
    corners = np.random.default_rng(0).integers(0, 40, (200, 7, 2))
    boxes = np.concatenate([corners, np.random.default_rng(1).integers(1, 20, (200, 7, 2))], 2)
    ends = corners + boxes[..., 2:]
    meet = ((corners[:, :, None] <= ends[:, None]) & (ends[:, :, None] >= corners[:, None])).all(3)
    layer = layers(boxes)
    for of_image, pairs in zip(layer, meet, strict=True):
        for later in range(7):
            assert of_image[later] == max((of_image[e] + 1 for e in range(later) if pairs[later, e]), default=0)
    assert set(layer.ravel()) >= {0, 1, 2}


def test_an_empty_region_says_nothing():
    x = tissue(2, 32)
    mixed = MedMix(MEDMIX_PRESETS["soft"])(x, 1, seeded(), torch.zeros(2, 32, 32))
    assert torch.equal(mixed.images, x) and not mixed.masks.any()
