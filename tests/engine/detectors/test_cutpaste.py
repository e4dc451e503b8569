"""CutPaste: three classes, a Gaussian over features, and Grad-CAM, each against its definition."""

import math

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.comparators.cutpaste import CLASSES, CutPaste, cut_paste, cut_paste_scar, grad_cam, jittered
from core.engine.detectors.mahalanobis import Normal
from core.engine.training.base import STEP, generator
from tests.conftest import ARCH
from tests.engine._images import normals


def test_three_classes_and_the_score_is_the_mahalanobis_distance():
    images, others = normals(16, 32), normals(5, 32, seed=8)
    encoder = build_encoder(EncoderConfig(arch=ARCH, seed=1))
    fitted = CutPaste.fit(encoder, images, CutPaste.presets["quick"].replace(steps=2, lr=1e-9))
    assert fitted.net.head[-1].out_features == CLASSES == 3
    torch.testing.assert_close(next(fitted.net.encoder.net.parameters()), next(encoder.net.parameters()))

    def features(part):
        with torch.no_grad():
            return fitted.net.encoder.backbone(torch.from_numpy(part).permute(0, 3, 1, 2).float() / 255).double()

    expected = OAS().fit(features(images).numpy()).mahalanobis(features(others).numpy()) ** 0.5
    np.testing.assert_allclose(fitted.image_score(fitted.predict(others)), expected, rtol=1e-2)


@pytest.mark.parametrize("unit", [False, True])
def test_grad_cam_is_autograds(unit):
    torch.manual_seed(0)
    maps = torch.randn(2, 5, 3, 3, requires_grad=True)
    normal = Normal(torch.randn(5), torch.randn(5, 5))
    pooled = maps.mean((2, 3))
    features = torch.nn.functional.normalize(pooled, dim=1) if unit else pooled
    (normal.distance(features).square().sum() / 2).backward()
    slope = maps.grad.mean((2, 3))  # Grad-CAM's weight of a channel
    expected = (slope[:, :, None, None] * maps).sum(1).relu()
    found = grad_cam(maps.detach(), features.detach(), normal, pooled.detach().norm(dim=1) if unit else None)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


def test_as_published_embeddings_are_normalised_and_whole_images_jittered(monkeypatch):
    images = normals(16, 32)
    config = CutPaste.presets["published"].replace(steps=2, batch=8, latent=16)
    counts = []
    monkeypatch.setattr(
        "core.engine.detectors.comparators.cutpaste.jittered", lambda x, draws: counts.append(len(x)) or x
    )
    fitted = CutPaste.fit(build_encoder(EncoderConfig(arch=ARCH, seed=1)), images, config)
    assert counts == [8, 8, 24] * 2  # the two pieces of each image, then all three classes whole
    with torch.no_grad():
        features = fitted.net.encoder.backbone(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    mean = torch.nn.functional.normalize(features, dim=1).mean(0)
    torch.testing.assert_close(fitted.normals["mean"].float(), mean, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_it_learns_the_three_classes_of_a_batch():
    config = CutPaste.presets["quick"].replace(lr=0.02, latent=32)
    torch.manual_seed(0)
    net = CutPaste.build(build_encoder(EncoderConfig(arch=ARCH, seed=1)), config, 32).train()
    training = CutPaste.Training(net, normals(8, 32), config, torch.device("cpu"), "CutPaste")
    training.step = training.steps // 4  # the rate is near its highest
    x = torch.from_numpy(normals(8, 32)).permute(0, 3, 1, 2).float() / 255
    seen = [training.learn(x, generator(0, STEP)) for _ in range(14)]
    assert seen[-1]["loss"].item() < 0.6 * seen[0]["loss"].item() and seen[-1]["accuracy"] > 0.8


SIDE = 128


def ramps(count):
    """Images whose pixels carry their own place, so that a piece tells where it was cut."""
    at = (torch.arange(SIDE) + 0.5) / SIDE
    return torch.stack([at[:, None].expand(SIDE, SIDE), at.expand(SIDE, SIDE), torch.full((SIDE, SIDE), 0.5)]).expand(
        count, -1, -1, -1
    )


def test_a_rectangle_of_the_papers_area_and_ratio():
    x = ramps(40)
    changed = (cut_paste(x, torch.Generator().manual_seed(0)) - x).abs().amax(1) > 1e-4
    for mask in changed:
        rows, columns = (torch.nonzero(mask.any(axis))[:, 0] for axis in (1, 0))
        h, w = (int(v[-1] - v[0]) + 1 for v in (rows, columns))
        assert mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].float().mean() > 0.9
        assert 0.02 * 0.9 <= h * w / SIDE**2 <= 0.15 * 1.1
        assert 0.3 * 0.85 <= w / h <= 1 / 0.3 * 1.15
    assert changed.flatten(1).any(1).all()


def test_a_piece_is_cut_from_the_same_image_without_resampling(monkeypatch):
    monkeypatch.setattr("core.engine.detectors.comparators.cutpaste.jittered", lambda x, draws: x)
    x = torch.rand(6, 3, SIDE, SIDE)
    out = cut_paste(x, torch.Generator().manual_seed(2))
    for before, after in zip(x, out, strict=True):
        spots = torch.nonzero((after != before).any(0))
        (y, left), (last, right) = spots.min(0).values, spots.max(0).values
        piece = after[:, y : last + 1, left : right + 1]
        corner = (before == piece[:, :1, :1]).all(0)
        found = [
            torch.equal(before[:, a : a + piece.shape[1], b : b + piece.shape[2]], piece)
            for a, b in torch.nonzero(corner).tolist()
        ]
        assert any(found)


def test_a_scar_is_thin_and_long_and_turned():
    x = torch.rand(60, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(5))
    changed = (cut_paste_scar(x, torch.Generator().manual_seed(1)) - x).abs().amax(1) > 1e-6
    areas = changed.flatten(1).sum(1)
    assert (areas > 0).all() and areas.max() <= 16 * 25 / 4 * 1.3 + 4  # at 128 pixels, half of those at 256
    angles = []
    for mask in changed:
        spots = torch.nonzero(mask).float()
        if len(spots) > 12:
            _, values, axes = torch.linalg.svd(spots - spots.mean(0), full_matrices=False)
            if values[0] > 2 * values[1]:
                angles.append(math.degrees(math.atan2(float(axes[0, 0]), float(axes[0, 1]))) % 180)
    turned = [min(a, 180 - a) for a in angles]
    assert len(turned) > 5 and max(turned) < 55 and max(turned) > 15


@pytest.mark.parametrize("make", [cut_paste, cut_paste_scar])
def test_grey_images_stay_grey_and_draws_come_from_the_generator(make):
    grey = torch.rand(5, 1, 64, 64).expand(-1, 3, -1, -1)
    out = make(grey, torch.Generator().manual_seed(0))
    assert torch.allclose(out[:, 0], out[:, 2], atol=1e-6) and out.min() >= 0 and out.max() <= 1
    assert torch.equal(out, make(grey, torch.Generator().manual_seed(0)))
    assert not torch.equal(out, make(grey, torch.Generator().manual_seed(1)))


def test_jitter_changes_the_colour_a_little():
    x = torch.rand(8, 3, 16, 16)
    assert 0 < (jittered(x, torch.Generator().manual_seed(0)) - x).abs().mean() < 0.15
