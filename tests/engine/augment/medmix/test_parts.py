"""Colour, hashed noise, placement and the schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.engine.augment.colour import PLAIN, apply_colour, colour_map, hue_matrix, jitter_factors
from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.hashing import hashed_normal
from core.engine.augment.medmix import reference
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.placement import GAP, RoiSampler, place_all, sides
from tests.engine.augment.pictures import seeded, tissue


def test_colour_as_one_map_is_the_chain():
    x = tissue(16, 9)
    factors = jitter_factors(torch.rand(16, 4, generator=seeded()), (0.8, 0.8, 0.8, 0.3))
    order = torch.rand(16, 4, generator=seeded(1)).argsort(1)
    ours = apply_colour(x, *colour_map(factors, order), x.mean((2, 3)))
    for b in range(16):
        theirs = reference.jitter(x[b].double().numpy(), factors[b].numpy(), order[b].numpy())
        np.testing.assert_allclose(ours[b].numpy(), theirs, atol=2e-5)
    same = apply_colour(x, *colour_map(PLAIN.expand(16, 4), order), x.mean((2, 3)))
    torch.testing.assert_close(same, x, atol=1e-5, rtol=0)


def test_hue_keeps_greys_and_comes_round():
    grey = torch.full((1, 3, 1), 0.4)
    torch.testing.assert_close(hue_matrix(torch.tensor([0.3])) @ grey, grey, atol=1e-5, rtol=0)
    third = hue_matrix(torch.tensor([1 / 3]))
    torch.testing.assert_close(third @ third @ third, torch.eye(3)[None], atol=1e-4, rtol=0)


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
    u = torch.rand(20_000, 2, generator=seeded())
    for even_ratio, middle in ((False, (0.02 + 0.5) / 2), (True, (0.02 * 0.5) ** 0.5)):
        hw = sides(u, (0.02, 0.5), 2.0, 1000, even_ratio)
        mean = hw.prod(1).sqrt()
        assert mean.min() >= 19 and mean.max() <= 501
        assert ((mean < 1000 * middle).float().mean() - 0.5).abs() < 0.02
        assert (hw[:, 0] / hw[:, 1]).max() < 2.2


@pytest.mark.parametrize("with_roi", [False, True])
def test_placement(with_roi):
    roi = None
    if with_roi:
        roi = torch.zeros(40, 128, 128)
        roi[:, 20:110, 40:100] = 1
        roi[::2, 60:110, 40:70] = 0
    counts = torch.full((40,), 4)
    u = torch.rand(40, 4, 24, 2, generator=seeded())
    boxes = place_all(torch.arange(40), counts, u, torch.full((40, 4, 2), 30.0), RoiSampler(roi, 128), 0.95, apart=True)
    assert (boxes[..., :2] >= 0).all() and (boxes[..., :2] + boxes[..., 2:] <= 128).all()
    for image, four in enumerate(boxes.tolist()):
        painted = np.zeros((128 + GAP, 128 + GAP), int)
        for y, x, h, w in four:
            painted[y : y + h + 1, x : x + w + 1] += 1
            if with_roi:
                assert roi[image, y : y + h, x : x + w].mean() > 0.7
        assert painted.max() == 1, "boxes must be apart"
    centres = (boxes[..., :2] + boxes[..., 2:] / 2).float().flatten(0, 1)
    assert centres.std(0).min() > (8 if with_roi else 20), "places must vary"


def test_without_a_region_places_are_even():
    u = torch.rand(4000, 1, 24, 2, generator=seeded())
    lengths, sampler = torch.full((4000, 1, 2), 14.0), RoiSampler(None, 64)
    boxes = place_all(torch.arange(4000), torch.ones(4000).long(), u, lengths, sampler, 0.95, apart=False)
    counts = torch.bincount(boxes[:, 0, 0], minlength=51).float()
    assert len(counts) == 51 and ((counts - 4000 / 51).square() / (4000 / 51)).sum() < 90  # chi square, 50 degrees


def test_an_empty_region_says_nothing():
    x = tissue(2, 32)
    mixed = MedMix(MEDMIX_PRESETS["soft"])(x, 1, seeded(), torch.zeros(2, 32, 32))
    assert torch.equal(mixed.images, x) and not mixed.masks.any()


def test_families_differ():
    families = ("cut", "soft", "seam", "lens", "stain", "mottle", "grain", "foreign", "zoom")
    x = tissue(8, 48)
    images = [MedMix(MEDMIX_PRESETS[name])(x, 2, seeded()).images for name in families]
    for i, a in enumerate(images):
        for b in images[:i]:
            assert (a - b).abs().amax() > 0.05


def test_grey_images_stay_grey_under_the_presets_for_grey_modalities():
    x = tissue(8, 48)[:, :1].expand(-1, 3, -1, -1).contiguous()
    for name in ("xray", "ultrasound"):
        images = MedMix(MEDMIX_PRESETS[name])(x, 3, seeded()).images
        torch.testing.assert_close(images[:, 0], images[:, 2], atol=1e-4, rtol=0)
