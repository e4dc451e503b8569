"""The inference copy of an encoder: the same maps, fewer layers, the encoder untouched."""

import pytest
import torch
from torch import nn

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import build_encoder


def trained_like(arch):
    """An encoder whose batch norms have statistics, as after training."""
    encoder = build_encoder(EncoderConfig(arch=arch)).train()
    for seed in range(3):
        encoder(torch.rand(4, 3, 64, 64, generator=torch.Generator().manual_seed(seed)))
    return encoder


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["resnet18", "efficientnet-lite0", "convnext_atto", "vit_tiny_patch16_224"])
def test_maps_are_the_same(arch):
    encoder = trained_like(arch)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    quick, x = inference_copy(encoder), torch.rand(2, 3, 96, 96)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    with torch.inference_mode():
        plain = encoder.eval().maps(x)
        for stride, found in quick.maps(x).items():
            torch.testing.assert_close(found, plain[stride], rtol=1e-3, atol=1e-4 * float(plain[stride].abs().max()))
    norms = [m for m in quick.net.modules() if isinstance(m, nn.BatchNorm2d)]
    assert not norms and not any(p.requires_grad for p in quick.parameters())


def test_a_convolution_that_feeds_two_layers_is_not_folded():
    class Twice(nn.Module):
        def __init__(self, stem):
            super().__init__()
            self.stem, self.norm = stem, nn.BatchNorm2d(64)

        def forward(self, x):
            h = self.stem(x)
            return self.norm(h) + h

    encoder = trained_like("resnet18")
    encoder.net.conv1 = Twice(encoder.net.conv1)
    encoder.net.conv1.norm.weight.data.fill_(3.0)
    x = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        expected = encoder.eval().maps(x)[32]
        torch.testing.assert_close(inference_copy(encoder).maps(x)[32], expected, rtol=1e-3, atol=1e-4)
