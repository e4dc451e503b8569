"""Lesions that readers marked, as MedMix's donors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.engine.augment.config import MedMixConfig
from core.engine.augment.medmix.donors import MATCH, MarkedLesions
from core.engine.augment.medmix.medmix import MedMix
from tests.engine.augment.pictures import seeded, tissue

SIDE = 64
PLAIN = MedMixConfig(
    donor="marked",
    p_jitter=0,
    p_noise=0,
    p_fisheye=0,
    p_wave=0,
    avoid_overlap=True,
    shading=(0.3, 0.4),
    bulge=(0.5, 0.6),
)
CPU = torch.device("cpu")


def marked() -> MarkedLesions:
    """Two lesions in one image of grey 100: a bar of red and a square of green; a third is too small to count."""
    image, mask = np.full((1, SIDE, SIDE, 3), 100, np.uint8), np.zeros((1, SIDE, SIDE), np.uint8)
    for part, colour in (
        ((slice(8, 13), slice(10, 34)), (200, 100, 100)),
        ((slice(40, 52), slice(40, 52)), (100, 200, 100)),
    ):
        mask[0][part] = 1
        image[0][part] = colour
    mask[0, 30, 5:8] = 1
    found = MarkedLesions.of(image, mask, CPU)
    assert found is not None
    return found


def test_each_connected_lesion_has_its_box_and_its_surroundings():
    lesions = marked()
    assert lesions.image.tolist() == [0, 0] and lesions.alpha.shape == (2, SIDE, SIDE)
    for alpha, (y0, x0, h, w) in zip(lesions.alpha, lesions.boxes.tolist(), strict=True):
        inside = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        inside[y0 : y0 + h, x0 : x0 + w] = True
        assert alpha[inside].max() > 0.9 and alpha[~inside].max() <= 1 / 255, "with its soft edge, all of it"
    assert torch.allclose(lesions.around, torch.full((2, 3), 100 / 255), atol=0.02)
    assert MarkedLesions.of(np.zeros((1, 8, 8, 3), np.uint8), np.zeros((1, 8, 8), np.uint8), CPU) is None


def test_a_marked_lesion_is_pasted_at_its_own_size_in_its_own_outline_and_in_the_colour_of_the_place():
    ground = torch.tensor([0.2, 0.2, 0.25])[:, None, None]
    x = ground.expand(4, 3, SIDE, SIDE).clone()  # in colour: grey images take no other colours
    mixed = MedMix(PLAIN, marked=marked())(x, 1, seeded(3))
    sizes = {tuple(size) for size in marked().boxes[:, 2:].tolist()}
    for image, alpha, (y0, x0, y1, x1) in zip(mixed.images, mixed.alpha, mixed.boxes[:, 0].tolist(), strict=True):
        assert (y1 - y0, x1 - x0) in sizes
        colour = image.flatten(1)[:, alpha.argmax()]
        strength = colour.max() - colour.sort().values[0]
        assert strength == pytest.approx(100 / 255, abs=0.06), "one channel stands out as far as in its own image"
        fitted = 100 / 255 + (0.2 - 100 / 255) * np.array(MATCH)
        assert fitted[1] - 0.03 <= colour.min() <= fitted[0] + 0.03, "its ground is brought to that of the place"
        assert torch.equal(image[:, alpha == 0], x[0][:, alpha == 0])
    assert (mixed.donors == -1).all() and (mixed.sources == 0).all(), "neither of the batch nor of another study"
    assert (mixed.masks.sum((1, 2)) < 0.25 * SIDE**2).all()


def test_without_marks_another_image_is_cut_from_and_classes_hold_their_counts():
    x = tissue(5, SIDE)
    same = MedMix(PLAIN.replace(donor="other"))(x, 2, seeded(1))
    assert torch.equal(MedMix(PLAIN)(x, 2, seeded(1)).images, same.images)
    both = MedMix(PLAIN.replace(donor="marked+other"), marked=marked())(x, 3, seeded(2))
    assert (both.donors[:, :3] >= 0).any() and (both.donors[:, :3] == -1).any()
    roi = torch.zeros(5, SIDE, SIDE, dtype=torch.uint8)
    roi[:, :, 16:] = 1
    inside = MedMix(PLAIN, marked=marked())(x, 3, seeded(2), roi)
    assert not (inside.masks & (roi == 0)).any()
    with pytest.raises(ValueError, match="annotated images are 64 pixels wide, the batch's 32"):
        MedMix(PLAIN, marked=marked())(tissue(2, 32), 1, seeded(0))
