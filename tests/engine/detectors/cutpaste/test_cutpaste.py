"""CutPaste: three classes, a Gaussian over features, and Grad-CAM, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.comparators.cutpaste import CLASSES, CutPaste, grad_cam
from core.engine.detectors.mahalanobis import Normal
from core.engine.training.base import STEP, generator
from tests.conftest import ARCH
from tests.engine._images import normals


def test_three_classes_and_the_score_is_the_mahalanobis_distance():
    images, others = normals(16, 32), normals(5, 32, seed=8)
    fitted = CutPaste.fit(
        build_encoder(EncoderConfig(arch=ARCH, seed=1)), images, CutPaste.presets["quick"].replace(steps=2)
    )
    assert fitted.net.head[-1].out_features == CLASSES == 3

    def features(part):
        with torch.no_grad():
            return fitted.net.encoder.backbone(torch.from_numpy(part).permute(0, 3, 1, 2).float() / 255).double()

    expected = OAS().fit(features(images).numpy()).mahalanobis(features(others).numpy()) ** 0.5
    np.testing.assert_allclose(fitted.image_score(fitted.predict(others)), expected, rtol=1e-2)


def test_grad_cam_is_autograds():
    torch.manual_seed(0)
    maps = torch.randn(2, 5, 3, 3, requires_grad=True)
    normal = Normal(torch.randn(5), torch.randn(5, 5))
    (normal.distance(maps.mean((2, 3))).square().sum() / 2).backward()
    slope = maps.grad.mean((2, 3))  # Grad-CAM's weight of a channel
    expected = (slope[:, :, None, None] * maps).sum(1).relu()
    found = grad_cam(maps.detach(), maps.detach().mean((2, 3)), normal)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


def test_grad_cam_of_unit_features_is_autograds():
    torch.manual_seed(0)
    maps = torch.randn(2, 5, 3, 3, requires_grad=True)
    normal = Normal(torch.randn(5), torch.randn(5, 5))
    pooled = maps.mean((2, 3))
    unit = torch.nn.functional.normalize(pooled, dim=1)
    (normal.distance(unit).square().sum() / 2).backward()
    expected = (maps.grad.mean((2, 3))[:, :, None, None] * maps).sum(1).relu()
    found = grad_cam(maps.detach(), unit.detach(), normal, pooled.detach().norm(dim=1))
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
