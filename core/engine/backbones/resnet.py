"""ResNets of torchvision, including the paper's ResNet-18 (Sec. Implementation details)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch
from torch import Tensor, nn

from core.engine.backbones.base import Backbone, Pretrained, Source
from core.engine.backbones.weights import BadWeights
from core.engine.registry import BACKBONES


class ResNet(Backbone):
    """A ResNet of torchvision. The map at stride 2 is from the stem, maps at 4 to 32 are from layers 1 to 4."""

    licence = "BSD-3-Clause (torchvision); trained on ImageNet, whose images are for research"

    def __init__(self, name: str) -> None:
        import torchvision  # imported here because it takes seconds to load and the page's process builds no network

        self.name = name
        self.weights = torchvision.models.get_model_weights(name).DEFAULT
        self.sources = (Source("torchvision's ImageNet weights", url=self.weights.url),)

    @property
    def file(self) -> Path:
        """Path at which torchvision caches the downloaded weights."""
        return Path(torch.hub.get_dir()) / "checkpoints" / Path(self.weights.url).name

    def build(self) -> nn.Module:
        import torchvision

        net = torchvision.models.get_model(self.name, weights=None)
        net.fc = nn.Identity()
        return net

    def widths(self, net: Any) -> dict[int, int]:
        expansion = net.layer1[0].expansion
        return {2: 64} | {stride: width * expansion for stride, width in ((4, 64), (8, 128), (16, 256), (32, 512))}

    def maps(self, net: Any, x: Tensor, strides: tuple[int, ...]) -> dict[int, Tensor]:
        out = {2: net.relu(net.bn1(net.conv1(x)))}
        coarser = tuple(s for s in strides if s > 2)
        out |= self.onwards(net, out[2], 2, coarser) if coarser else {}
        return {stride: out[stride] for stride in strides}

    def onwards(self, net: Any, h: Tensor, stride: int, strides: tuple[int, ...]) -> dict[int, Tensor]:
        out = {}
        for at, layer in ((4, net.layer1), (8, net.layer2), (16, net.layer3), (32, net.layer4)):
            if stride < at <= strides[-1]:
                out[at] = h = layer(net.maxpool(h) if at == 4 else h)
        return {at: out[at] for at in strides}

    def imagenet(self) -> Pretrained:
        try:
            state = self.weights.get_state_dict(progress=False, check_hash=True)
        except (URLError, OSError, RuntimeError) as error:
            raise BadWeights(
                f"the ImageNet weights could not be downloaded ({error}). On a machine with network access download "
                f"{self.weights.url}, then either put the file at {self.file} or set the encoder's init to its path"
            ) from error
        return Pretrained(state, self.sources[0].name, self.licence)

    def bundled(self) -> Pretrained | None:
        """Returns torchvision's ImageNet weights if they are in its download cache, otherwise None."""
        return self.imagenet() if self.file.is_file() else None


for name, title in {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "wide_resnet50_2": "Wide ResNet-50-2",
}.items():
    BACKBONES.register(name, title=title)(partial(ResNet, name))
