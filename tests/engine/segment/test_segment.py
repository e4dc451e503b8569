"""A lesion's region from clicks: on drawn lesions, with the weights as they are."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.segment.region import MEASURES, Click, lattice, measures, region
from tests.benches._fit import clicked, dice, fit_weights, next_click

SHAPE = (120, 160)


def drawn(*discs: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """A smooth image with red discs (x, y, radius), and their mask."""
    rng = np.random.default_rng(0)
    image = cv2.resize(rng.integers(110, 150, (6, 8, 3), np.uint8), SHAPE[::-1], interpolation=cv2.INTER_CUBIC)
    mask = np.zeros(SHAPE, np.uint8)
    for x, y, r in discs:
        cv2.circle(mask, (x, y), r, 1, -1)
    image[mask > 0] = (190, 60, 60)
    return np.clip(image + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8), mask > 0


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch="resnet18", init="random")).eval()


@pytest.fixture(scope="module")
def one(encoder):
    image, mask = drawn((60, 60, 24))
    return lattice(encoder, image), mask


def test_a_click_finds_the_lesion_it_lies_in(one):
    cells, mask = one
    after = clicked(mask, lambda clicks: region(cells, clicks, SHAPE), 5)
    assert after[0] > 0.6 and after[4] > 0.8, after


def test_positive_clicks_lie_in_the_region_and_negative_ones_do_not(one):
    cells, _ = one
    rng = np.random.default_rng(1)
    for _ in range(10):
        spots = [(float(x), float(y)) for x, y in zip(rng.uniform(0, 160, 6), rng.uniform(0, 120, 6), strict=True)]
        apart = min(np.hypot(a[0] - b[0], a[1] - b[1]) for i, a in enumerate(spots) for b in spots[:i])
        if apart < 6:
            continue
        clicks = [Click(x, y, i < 3) for i, (x, y) in enumerate(spots)]
        found = region(cells, clicks, SHAPE)
        assert found.dtype == bool and found.shape == SHAPE
        assert [bool(found[int(c.y), int(c.x)]) for c in clicks] == [c.positive for c in clicks]


def test_a_negative_click_alone_is_refused_with_a_sentence(one):
    with pytest.raises(ValueError, match="first click must be inside"):
        region(one[0], [Click(5, 5, False)], SHAPE)


def test_parts_without_a_positive_click_are_left_out_and_holes_filled(one):
    weights = np.zeros(15)
    weights[MEASURES.index("colour")] = -1
    weights[-1] = 0.5  # by likeness of colour alone
    image, mask = drawn((40, 60, 20), (120, 60, 20))
    image[55:65, 35:45] = image[5, 5]  # a hole in the first
    cells = lattice(build_encoder(EncoderConfig(init="random")).eval(), image)
    found = region(cells, [Click(28, 60, True)], SHAPE, weights)
    assert found[60, 40] and not found[:, 80:].any()
    assert dice(found, mask & (np.arange(160) < 80)) > 0.9
    holed = region(cells, [Click(28, 60, True), Click(40, 60, False)], SHAPE, weights)
    assert not holed[60, 40] and holed[60, 28]


def test_a_window_finds_a_small_lesion_and_nothing_outside(encoder):
    image, mask = drawn((60, 60, 6))
    box = (40, 40, 80, 80)
    found = region(lattice(encoder, image, box), [Click(60, 60, True)], SHAPE)
    assert dice(found, mask) > 0.6
    outside = np.ones(SHAPE, bool)
    outside[40:80, 40:80] = False
    assert not (found & outside).any()
    with pytest.raises(ValueError, match="8 x 8"):
        lattice(encoder, image, (40, 40, 44, 80))


def test_measures_are_nearest_at_the_click(one):
    cells, _ = one
    at = cells.cells(np.array([[60.0, 60.0]]))
    found = measures(cells, at)
    assert found.shape == (cells.h * cells.w, len(MEASURES))
    least = found[at[0]]
    assert (least[[0, 1, 2, 5]] <= found[:, [0, 1, 2, 5]].min(0) + 1e-6).all()
    assert (least[[3, 4]] >= found[:, [3, 4]].max(0) - 1e-5).all()


def test_the_next_click_is_the_most_interior_point_of_the_largest_error():
    truth = np.zeros((20, 30), bool)
    truth[4:15, 5:16] = True
    assert next_click(truth, np.zeros_like(truth)) == Click(10, 9, True)
    found = truth.copy()
    found[2:19, 20:29] = True
    click = next_click(truth, found)
    assert click is not None and not click.positive and (found & ~truth)[int(click.y), int(click.x)]
    assert next_click(truth, truth) is None and dice(truth, truth) == 1


@pytest.mark.slow
def test_weights_are_learnt_from_clicks(encoder):
    samples = []
    for discs in (((50, 60, 22),), ((90, 50, 16),), ((100, 70, 28),)):
        image, mask = drawn(*discs)
        samples.append((lattice(encoder, image), mask))
    weights = fit_weights(samples, rounds=2, clicks=3)
    image, mask = drawn((70, 64, 20))
    cells = lattice(encoder, image)
    assert clicked(mask, lambda c: region(cells, c, SHAPE, weights), 3)[2] > 0.8
    with pytest.raises(ValueError, match="no images"):
        fit_weights([])
