"""Weak views against a slow loop, one draw per image, masks warped with their images."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from core.engine.augment.colour import LUMA
from core.engine.augment.config import WEAK_PRESETS, WeakConfig
from core.engine.augment.medmix.reference import jitter
from core.engine.augment.weak import REACH, WeakViews, apply_weak
from tests.engine.augment.pictures import seeded, tissue

STRONG_BLUR = WEAK_PRESETS["simclr"].replace(p_blur=0.7, sigma=(0.5, 16.0))


def slow_view(x: np.ndarray, box, flip: bool, factors, sigma: float, order) -> np.ndarray:
    """x float64 (3, S, S): crop and resize pixel by pixel, flip, jitter step by step in any order, blur, clamp."""
    side = x.shape[-1]
    y0, x0, h, w = (float(v) for v in box)
    out = np.zeros_like(x)
    for i in range(side):
        for j in range(side):
            y = min(max(y0 + (i + 0.5) / side * h - 0.5, 0), side - 1)
            u = min(max(x0 + (j + 0.5) / side * w - 0.5, 0), side - 1)
            a, b = min(int(y), side - 2), min(int(u), side - 2)
            p, q = y - a, u - b
            top = (1 - q) * x[:, a, b] + q * x[:, a, b + 1]
            low = (1 - q) * x[:, a + 1, b] + q * x[:, a + 1, b + 1]
            out[:, i, side - 1 - j if flip else j] = (1 - p) * top + p * low
    out = jitter(out, factors, order)
    if sigma > 0:
        reach = math.ceil(REACH * sigma)
        taps = np.array([math.exp(-0.5 * (t / sigma) ** 2) for t in range(-reach, reach + 1)])
        taps /= taps.sum()
        for axis in (1, 2):
            pads = [(0, 0)] * 3
            pads[axis] = (reach, reach)
            wide = np.pad(out, pads, mode="reflect")
            out = sum(t * np.take(wide, range(n, n + side), axis) for n, t in enumerate(taps))
    return out.clip(0, 1)


@pytest.mark.parametrize("config", [*WEAK_PRESETS.values(), STRONG_BLUR], ids=[*WEAK_PRESETS, "strong blur"])
def test_against_a_slow_loop(config):
    x = tissue(12, 24)
    views = WeakViews(config)(x, seeded(3))
    d = WeakViews(config).draw(12, 24, seeded(3))
    assert 0 < d.flip.sum() < 12 and 0 < (d.sigma > 0).sum() < 12, "the draws should try both ways"
    for b in range(12):
        row = (t[b].numpy() for t in (d.box, d.flip, d.factors, d.sigma))
        expected = slow_view(x[b].double().numpy(), *row, np.random.default_rng(b).permutation(4))
        assert np.abs(views[b].numpy() - expected).max() < 2e-4


def test_some_views_are_grey_and_have_the_luma_of_what_they_would_be():
    x = tissue(12, 24)
    plain = {"p_jitter": 0.0, "p_blur": 0.0, "crop": (1.0, 1.0), "ratio": (1.0, 1.0), "flip": 0.0}
    views = WeakViews(WeakConfig(p_grey=0.5, **plain))(x, seeded(3))
    luma = (x * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
    grey = [torch.allclose(view, y.expand(3, -1, -1), atol=1e-5) for view, y in zip(views, luma, strict=True)]
    same = [torch.allclose(view, image, atol=1e-5) for view, image in zip(views, x, strict=True)]
    assert 0 < sum(grey) < 12 and [not g for g in grey] == same


def test_several_views_are_those_of_one_call_after_another():
    x, draws = tissue(5, 24), seeded(2)
    one_by_one = torch.cat([WeakViews()(x, draws) for _ in range(3)])
    torch.testing.assert_close(WeakViews()(x, seeded(2), times=3), one_by_one, atol=1e-6, rtol=0)


def test_each_image_has_a_draw_of_its_own_and_a_seed_repeats_it():
    x = tissue(1, 32).expand(6, -1, -1, -1)
    views = WeakViews()(x, seeded(1))
    for b in range(1, 6):
        assert not torch.allclose(views[0], views[b], atol=1e-3)
    assert torch.equal(views, WeakViews()(x, seeded(1)))
    assert not torch.equal(views, WeakViews()(x, seeded(2)))


def test_masks_go_along():
    """A mask drawn into the image as a colour must be found where the view shows that colour."""
    masks = torch.zeros(16, 64, 64, dtype=torch.bool)
    for b in range(16):
        masks[b, 4 + b : 40 + b, 10:50] = True
    x = masks[:, None].expand(-1, 3, -1, -1).float()
    config = WeakConfig(p_jitter=0.0, p_grey=0.0, p_blur=0.0)
    views, warped = WeakViews(config).with_masks(x, seeded(), masks)
    assert warped.dtype == torch.bool and warped.any() and not warped.all()
    assert ((views[:, 0] > 0.5) != warped).float().mean() < 0.02
    clear = (views[:, 0] < 0.01) | (views[:, 0] > 0.99)
    assert torch.equal((views[:, 0] > 0.5)[clear], warped[clear])


def test_the_result_does_not_depend_on_the_chunks(monkeypatch):
    x = tissue(9, 40)
    drawn = WeakViews().draw(9, 40, seeded())
    whole = apply_weak(x, drawn)
    monkeypatch.setattr("core.engine.augment.weak.PER_THREAD", 1)
    torch.testing.assert_close(apply_weak(x, drawn), whole, atol=1e-6, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_views():
    x = tissue(8, 64)
    here, there = WeakViews()(x, seeded()), WeakViews()(x.cuda(), seeded())
    torch.testing.assert_close(here, there.cpu(), atol=2e-3, rtol=0)
