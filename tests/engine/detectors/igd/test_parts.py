"""Patches, losses, networks: each against its formula."""

import json

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors import reference
from core.engine.detectors.igd import losses
from core.engine.detectors.igd.config import PRESETS, IGDConfig
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.networks import Code, Critic, Generator
from core.engine.detectors.igd.train import steps_of
from tests.conftest import ARCH


@pytest.mark.parametrize(("size", "count"), [(256, 225), (96, 25), (64, 9), (70, 16), (32, 1)])
def test_patches_cover_and_come_back(size, count):
    grid = Grid(size, 32, 16)
    assert len(grid) == count
    x = torch.rand(2, 3, size, size)
    patches = grid.cut(x)
    assert patches.shape == (2, count, 3, 32, 32)
    for p, (top, left) in enumerate(grid.corners):
        assert torch.equal(patches[:, p], x[:, :, top : top + 32, left : left + 32])
    torch.testing.assert_close(grid.lay(patches[:, :, 0]), x[:, 0])  # overlaps averaged: the image itself


def test_overlaps_are_averaged_not_summed():
    grid = Grid(48, 32, 16)
    values = torch.arange(4.0).view(1, 4, 1, 1).expand(1, 4, 32, 32)
    laid = grid.lay(values)
    assert laid[0, 0, 0] == 0 and laid[0, 47, 47] == 3
    assert laid[0, 24, 24] == pytest.approx(1.5)  # all four
    assert laid[0, 0, 24] == pytest.approx(0.5)  # the upper two


def test_images_are_mirrored_by_chance_while_learning_alone():
    images = np.random.default_rng(0).integers(0, 255, (64, 32, 32, 3), dtype=np.uint8)
    plain = Items(images, None, torch.device("cpu"))
    items = Items(images, None, torch.device("cpu"), flip=PRESETS["published"].flip)
    chosen = torch.arange(64)
    x, (seen, features) = plain.take(chosen, 0, 0, 3)[0], items.take(chosen, 0, 0, 3)
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(seen, x, strict=True)]
    assert 16 < sum(mirrored) < 48 and features is None
    assert all(m or torch.equal(a, b) for m, a, b in zip(mirrored, seen, x, strict=True))
    items.cache(build_encoder(EncoderConfig(arch=ARCH)), 8)
    assert items.features is None  # those of the mirrored ones are others
    assert torch.equal(torch.cat(list(items.all(64))), x)


def test_classifier_by_hand():
    z, c = torch.randn(5, 4), torch.randn(4)
    got = losses.gauss(z, c, torch.tensor(3.0))
    torch.testing.assert_close(got, torch.tensor([reference.h_psi(row, c, 3) for row in z]))


def test_centre_keeps_away_from_zero():
    z = torch.tensor([[0.05, -0.02, 0.5, -0.7], [0.05, -0.04, 0.7, -0.9]])
    np.testing.assert_allclose(reference.mu_gamma(z), [0.1, -0.1, 0.6, -0.8], rtol=1e-6)
    torch.testing.assert_close(losses.classifier([z])[0], torch.tensor([0.1, -0.1, 0.6, -0.8]))


def test_sigma_is_a_mean_over_batches_of_at_least_one():
    z = torch.tensor([[0.1], [0.1], [3.0], [5.0]])
    assert reference.sigma_gamma_sq(z, torch.zeros(1), 2) == pytest.approx((1 + (9 + 25) / 2) / 2)


def test_mixture_and_critic_by_hand():
    z, share = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0.5, 0.25, 0.0])
    assert losses.mixed(z, share).flatten().tolist() == [2.5, 2.0, 1.0]
    loss = losses.critic_loss(torch.tensor([0.5, 0.0, 0.0]), share, torch.tensor([0.3, 0.0, 0.0]))
    assert loss == pytest.approx(0.25**2 / 3 + 0.09 / 3)
    assert losses.generator_loss(torch.tensor([1.0, 3.0])) == 5


@pytest.mark.parametrize("space", ["imagenet", "unit"])
def test_reconstruction_error(space):
    rec = losses.Reconstruction(3, (0.5, 0.5), rho=1.0, space=space)
    x = torch.full((1, 3, 32, 32), 0.25)
    y = torch.full((1, 3, 32, 32), 0.75)
    expected = 0.5 if space == "unit" else sum(0.5 / s for s in losses.IMAGENET_STD) / 3 / losses.IMAGENET_RANGE
    assert rec(x, y).item() == pytest.approx(expected, rel=1e-4)
    assert rec.map(x, y).mean().item() == pytest.approx(expected, rel=1e-4)
    assert rec(x, x).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("size", [32, 64, 90, 96, 256])
def test_generator_and_critic_sizes(size):
    made = Generator(size, latent=16, width=4)(torch.randn(2, 16))
    assert made.shape == (2, 3, size, size) and made.min() >= 0 and made.max() <= 1
    assert Critic(size, 4)(made).shape == (2,)


def test_code_starts_on_the_scale_of_the_features():
    code, h = Code(32, 8), torch.randn(200, 32) * 1e-3 + 5
    code.adapt(h.split(3))
    assert torch.allclose(((h - code.shift) * code.scale).var(0).mean(), torch.ones(()), atol=0.02)


def test_paper_preset_is_as_published():
    c = IGDConfig()
    assert (c.batch, c.epochs, c.lr, c.betas, c.weight_decay, c.power) == (16, 256, 1e-4, (0.0, 0.9), 1e-6, 0.9)
    assert (c.latent, c.rho, c.w_reg, c.gamma, c.reestimate, c.xi, c.xi_local) == (128, 0.15, 0.1, 0.2, 10, 0.1, 0.9)
    assert c.uses_local(256) and not c.uses_local(64)
    assert IGDConfig.from_dict(json.loads(c.to_json())) == c


def test_released_settings_change_steps_map_and_latent_layer():
    """Two images a step for the local model alone; overlaps summed; features as they come."""
    published, ours = PRESETS["published"], PRESETS["paper"]
    assert [steps_of(published, 9, local)[0] for local in (False, True)] == [1, 4]
    assert [steps_of(ours, 9, local)[0] for local in (False, True)] == [1, 1]
    grid = Grid(48, 32, 16)
    ones = torch.ones(1, len(grid), 32, 32)
    assert grid.lay(ones).unique().tolist() == [1.0] and grid.lay(ones, "sum").unique().tolist() == [1.0, 2.0, 4.0]
    assert not published.rescale and ours.rescale
