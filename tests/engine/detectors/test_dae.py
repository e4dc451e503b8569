"""DAE: tied weights, against loops written from Masci et al. 2011."""

from __future__ import annotations

import numpy as np
import torch

from core.engine.detectors.comparators.dae import TiedAutoEncoder


def slow_convolution(maps, filters, bias):
    """maps (a, s, s), filters (b, a, 3, 3) -> (b, s, s), zero-padded, by loops."""
    side = maps.shape[1]
    wide = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
    out = np.zeros((len(filters), side, side))
    for k in range(len(filters)):
        for i in range(side):
            for j in range(side):
                out[k, i, j] = (wide[:, i : i + 3, j : j + 3] * filters[k]).sum() + bias[k]
    return out


def test_the_way_back_uses_the_same_filters_flipped():
    torch.manual_seed(0)
    net = TiedAutoEncoder(8, width=2, latent=3)  # one layer: 3 -> 3 channels, pooled to 4 cells
    assert len(net.filters) == 1
    for bias in (*net.forth, *net.back):
        bias.data.normal_()
    x = torch.rand(1, 3, 8, 8)
    w, b, c = (p[0].detach().numpy() for p in (net.filters, net.forth, net.back))
    h = np.tanh(slow_convolution(2 * x[0].numpy() - 1, w, b))
    pooled = h.reshape(3, 4, 2, 4, 2).max((2, 4))
    up = pooled.repeat(2, 1).repeat(2, 2)
    flipped = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    y = np.tanh(slow_convolution(up, flipped, c))
    np.testing.assert_allclose(net(x)[0].detach().numpy(), (y + 1) / 2, atol=1e-5)


def test_an_image_passes_through_few_numbers():
    net = TiedAutoEncoder(64, width=8, latent=5)
    assert len(net.filters) == 4 and net.filters[-1].shape[0] == 5  # 5 x 4 x 4 for 3 x 64 x 64
    assert net(torch.rand(2, 3, 64, 64)).shape == (2, 3, 64, 64)
