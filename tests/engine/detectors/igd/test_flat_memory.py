"""IGD's estimates over all images hold one block at a time, and are those over all at once."""

import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors import reference
from core.engine.detectors.igd import items as module
from core.engine.detectors.igd.config import PRESETS
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.model import IGDModel
from tests.engine._images import normals

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
