"""SuperSimpleNet: its parts against slow versions, what it learns from noise alone and from marks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext, Marks
from core.engine.detectors.supersimplenet import (
    SuperSimpleNet,
    SuperSimpleNetConfig,
    focal,
    gradient_noise,
    perlin,
    truncated,
)
from core.engine.metrics.detection import auroc
from tests.engine.detectors.conftest import with_spot

SMALL = SuperSimpleNet.presets["quick"].replace(batch=6, hidden=32, convolved=8, lr=1e-3, head_lr=2e-3)


def slow_noise(angles: np.ndarray, side: int) -> np.ndarray:
    down, right = angles.shape[0] - 1, angles.shape[1] - 1
    ease = lambda t: 6 * t**5 - 15 * t**4 + 10 * t**3  # noqa: E731
    out = np.zeros((side, side))
    for row in range(side):
        for column in range(side):
            y, x = (row + 0.5) * down / side, (column + 0.5) * right / side
            for i in (0, 1):
                for j in (0, 1):
                    angle = angles[int(y) + i, int(x) + j]
                    dy, dx = y - int(y) - i, x - int(x) - j
                    part = math.sin(angle) * dy + math.cos(angle) * dx
                    out[row, column] += part * ease(1 - abs(dy)) * ease(1 - abs(dx))
    return out


@pytest.mark.parametrize("cells", [(1, 1), (2, 4), (8, 1)])
def test_the_noise_is_perlins(cells):
    angles = 6 * torch.rand(cells[0] + 1, cells[1] + 1, generator=torch.Generator().manual_seed(1))
    found = gradient_noise(angles, 12)
    np.testing.assert_allclose(found.numpy(), slow_noise(angles.numpy(), 12), atol=1e-5)


def test_each_noise_reaches_both_bounds_and_is_that_of_its_draws():
    first, again = (perlin(20, 28, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again) and len({float(p.std()) for p in first}) == 20
    torch.testing.assert_close(first.amax((1, 2)), torch.ones(20))
    torch.testing.assert_close(first.amin((1, 2)), -torch.ones(20))
    assert perlin(2, 2, torch.Generator()).isfinite().all()


def test_losses_are_as_written():
    logits = torch.tensor([-2.0, 0.0, 0.3, 1.5, 9.0])
    truth, use = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0]), torch.tensor([True, True, True, True, False])
    p = [1 / (1 + math.exp(-v)) for v in logits.tolist()]
    said = [q if t else 1 - q for q, t in zip(p, truth.tolist(), strict=True)][:4]
    assert float(focal(logits, truth, use)) == pytest.approx(sum(-((1 - s) ** 4) * math.log(s) for s in said) / 4)
    # normal: -2 (0) and 0.3 (0.8); others: 0 (0.5) and 1.5 (0)
    assert float(truncated(logits, truth > 0, use)) == pytest.approx(0.8 / 2 + 0.5 / 2)
    assert float(truncated(logits, torch.zeros(5, dtype=torch.bool), ~use)) == pytest.approx(9.5)


@pytest.mark.long
def test_from_normal_images_alone_it_sees_what_is_not_like_them(encoder, images):
    seen: list = []
    fitted = SuperSimpleNet.fit(encoder, images, SMALL.replace(steps=80), FitContext(report=seen.append))
    first, last = (np.mean([v["loss"] for v in part]) for part in (seen[:8], seen[-8:]))
    assert last < 0.5 * first
    net = fitted.net
    middle = net.features(torch.from_numpy(images).permute(0, 3, 1, 2) / 255).transpose(0, 1).flatten(1)
    spread = middle.std(1)
    assert middle.mean(1).abs().max() < 1e-3 and ((spread - 1).abs() < 1e-3).sum() > 0.9 * len(spread)
    assert spread.max() < 1.001, "what hardly varies is not made much of"
    found = fitted.predict(np.concatenate([images[:6], with_spot(images[6:12], 30)]))
    assert auroc(fitted.image_score(found), np.repeat([0, 1], 6)) > 0.9


@pytest.mark.long
def test_marks_tell_it_what_to_look_for(encoder, images):
    """A spot that is marked is found in others; one that is ignored is neither learnt nor unlearnt."""
    spotted, masks = with_spot(images[:6], 12), np.zeros((6, 64, 64), np.uint8)
    masks[:, 12:22, 12:22] = 1
    config = SMALL.replace(steps=60, chance=0.01)
    marks = Marks(spotted, masks)
    fitted = SuperSimpleNet.fit(encoder, images[6:], config, FitContext(marks=marks))
    found = fitted.predict(np.concatenate([images[:6], with_spot(images[:6], 40)]))
    assert auroc(fitted.image_score(found), np.repeat([0, 1], 6)) == 1
    rows, columns = np.unravel_index(found.maps[6:].reshape(6, -1).argmax(1), found.maps.shape[1:])
    assert all(4 <= place <= 6 for place in (*rows, *columns))
    unknown = FitContext(marks=Marks(spotted, masks, ignored=masks))
    other = SuperSimpleNet.fit(encoder, images[6:], config, unknown).predict(spotted).maps[:, 2, 1:3]
    told = fitted.predict(spotted).maps[:, 2, 1:3]
    assert other.mean() < told.mean() - 0.5


@pytest.mark.parametrize("wrong", [{"strides": (16, 8)}, {"finer": 0}, {"noise": 0}, {"chance": 0}, {"threshold": 1}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(BadConfig):
        SuperSimpleNetConfig(**wrong)
