"""Patches, losses, networks: each against its formula, in memory that does not grow with the images."""

import json
import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors import reference
from core.engine.detectors.igd import items as module
from core.engine.detectors.igd import model
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.model import PRESETS, Code, Critic, Generator, IGDConfig, IGDModel
from core.engine.detectors.igd.train import steps_of
from tests.conftest import ARCH
from tests.engine._images import normals


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
    got = model.gauss(z, c, torch.tensor(3.0))
    torch.testing.assert_close(got, torch.tensor([reference.h_psi(row, c, 3) for row in z]))


def test_centre_keeps_away_from_zero():
    z = torch.tensor([[0.05, -0.02, 0.5, -0.7], [0.05, -0.04, 0.7, -0.9]])
    np.testing.assert_allclose(reference.mu_gamma(z), [0.1, -0.1, 0.6, -0.8], rtol=1e-6)
    torch.testing.assert_close(model.classifier([z])[0], torch.tensor([0.1, -0.1, 0.6, -0.8]))


def test_sigma_is_a_mean_over_batches_of_at_least_one():
    z = torch.tensor([[0.1], [0.1], [3.0], [5.0]])
    assert reference.sigma_gamma_sq(z, torch.zeros(1), 2) == pytest.approx((1 + (9 + 25) / 2) / 2)


def test_mixture_and_critic_by_hand():
    z, share = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0.5, 0.25, 0.0])
    assert model.mixed(z, share).flatten().tolist() == [2.5, 2.0, 1.0]
    loss = model.critic_loss(torch.tensor([0.5, 0.0, 0.0]), share, torch.tensor([0.3, 0.0, 0.0]))
    assert loss == pytest.approx(0.25**2 / 3 + 0.09 / 3)
    assert model.generator_loss(torch.tensor([1.0, 3.0])) == 5


@pytest.mark.parametrize("space", ["imagenet", "unit"])
def test_reconstruction_error(space):
    rec = model.Reconstruction(3, (0.5, 0.5), rho=1.0, space=space)
    x = torch.full((1, 3, 32, 32), 0.25)
    y = torch.full((1, 3, 32, 32), 0.75)
    expected = 0.5 if space == "unit" else sum(0.5 / s for s in model.IMAGENET_STD) / 3 / model.IMAGENET_RANGE
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


BATCH = 3
CONFIG = PRESETS["quick"].replace(batch=BATCH, width=8, critic_width=8)


def model_and_items(count):
    torch.manual_seed(0)
    encoder = build_encoder(EncoderConfig(arch="test_resnet", hidden=16, dim=16))
    grid = Grid(64, 32, 16)
    return IGDModel(encoder, CONFIG, 32, True), Items(normals(count, 64), grid, torch.device("cpu"))


@torch.no_grad()
def of_all_at_once(model, items):
    h = torch.cat(list(items.blocks(model.encoder, BATCH)))
    shift, scale = h.mean(0), 1 / h.var(0, unbiased=False).mean().sqrt()
    z = model.code.linear((h - shift) * scale)
    centre = reference.mu_gamma(z)
    variance = reference.sigma_gamma_sq(z, centre, BATCH * items.patches)
    return shift, scale, torch.tensor(centre).float(), torch.tensor(variance)


@pytest.mark.parametrize("count", [6, 8])
def test_estimates_are_those_of_all_at_once(count):
    model, items = model_and_items(count)
    model.code.adapt(items.blocks(model.encoder, BATCH))
    model.estimate(items, BATCH)
    found = (model.code.shift, model.code.scale, model.centre, model.sigma_sq)
    for one, other in zip(found, of_all_at_once(model, items), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operation gave."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.numel() * tensor.element_size())
        return out


def test_no_tensor_grows_with_the_images():
    found = []
    for count in (6, 24):
        model, items = model_and_items(count)
        with Largest() as largest:
            model.code.adapt(items.blocks(model.encoder, BATCH))
            model.estimate(items, BATCH)
        found.append(largest.size)
    assert found[0] == found[1] > 0


def test_features_that_do_not_fit_lie_in_a_file(tmp_path, monkeypatch):
    model, items = model_and_items(6)
    plain = torch.cat(list(items.blocks(model.encoder, BATCH)))
    monkeypatch.setattr(module, "CACHE", 0)
    items.cache(model.encoder, BATCH)
    assert items.features is None, "no folder, no room"
    items.cache(model.encoder, BATCH, tmp_path)
    assert torch.equal(items.features.flatten(0, 1), plain)
    assert np.load(tmp_path / "features.npy", mmap_mode="r").shape == (6, len(items.grid), model.encoder.features)
    x, h = items.take(torch.tensor([4, 1]), 2, 0, 0)
    assert len(x) == len(h) == 4 and math.isfinite(float(h.sum()))
    torch.testing.assert_close(h, model.encoder.eval().backbone(x), rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(module, "MAPPED", 0)
    fresh = model_and_items(6)[1]
    fresh.cache(model.encoder, BATCH, tmp_path)
    assert fresh.features is None
