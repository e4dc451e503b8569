"""The encoder f_theta: a backbone (ResNet-18 in the paper) and an MLP head to Z = R^128 (Sec. Implementation details).

The input is always float32 `(B, 3, S, S)` in [0, 1]; the encoder itself normalises the images.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones import weights
from core.engine.backbones.base import Backbone, Pretrained, ordered
from core.engine.backbones.config import STRIDES, EncoderConfig, is_backbone
from core.engine.backbones.timm_models import TimmBackbone
from core.engine.files import write_json, write_tensors
from core.engine.registry import BACKBONES

WEIGHTS, ABOUT, CENTRES = "encoder.safetensors", "encoder.json", "centres.safetensors"
SUBSTITUTE = "efficientnet-lite0"  # used instead of a backbone whose ImageNet weights are not on this machine


def find(name: str) -> Backbone:
    """Returns the backbone called `name`. Raises UnknownName, with a list of all names, if it does not exist."""
    if name not in BACKBONES.names() and is_backbone(name):
        return TimmBackbone(name)
    return BACKBONES.get(name)()


class ClassHead(nn.Module):
    """The head f_beta, trained to classify A_0 to A_k in pre-training (PMSACL Eq. 8) and used to score images.

    Args:
        width: Number of input features.
        classes: Number of classes, k + 1.
        on: Input of the head: "z" for projections, "features" for the backbone's pooled features.
        side: Side length in pixels of the images used in pre-training.
    """

    def __init__(self, width: int, classes: int, on: str, side: int) -> None:
        super().__init__()
        self.linear = nn.utils.skip_init(nn.Linear, width, classes)  # weights are loaded later
        self.on, self.side = on, side

    def evidence(self, h: Tensor, z: Tensor) -> Tensor:
        """Computes log odds `(N,)` of any class but A_0, from features h `(N, F)` and projections z `(N, D)`."""
        logits = self.linear(z if self.on == "z" else h)
        return torch.logsumexp(logits[:, 1:], 1) - logits[:, 0]

    def to_dict(self) -> dict[str, Any]:
        """Returns the arguments of the constructor by name."""
        return {"width": self.linear.in_features, "classes": self.linear.out_features, "on": self.on, "side": self.side}


class Encoder(nn.Module):
    """The encoder f_theta = project(backbone(x)), random until `build_encoder` or `load_encoder` sets its weights.

    Attributes:
        widths: Number of channels of the feature map at each stride.
        features: Number of pooled features F, equal to the number of channels of the coarsest map.
        origin: Source, licence and SHA-256 of the backbone's initial weights, stored with the encoder. If another
            backbone was requested but not available, `instead_of` names it.
        class_head: Head trained to classify A_0 to A_k in pre-training, or None.
    """

    class_head: ClassHead | None
    mean: Tensor
    std: Tensor

    def __init__(self, config: EncoderConfig | None = None) -> None:
        super().__init__()
        self.config = config or EncoderConfig()
        self.arch = find(self.config.arch)
        self.net = self.arch.build()
        self.widths = self.arch.widths(self.net)
        self.features = self.widths[STRIDES[-1]]
        self.head = nn.Sequential(
            nn.Linear(self.features, self.config.hidden),
            nn.ReLU(inplace=True),
            nn.Linear(self.config.hidden, self.config.dim),
        )
        self.class_head = None
        self.origin: dict[str, str] = {"source": "random"}
        # These depend on the backbone only, so that an encoder can start from any other one with the same backbone.
        self.register_buffer("mean", torch.tensor(self.arch.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(self.arch.std).view(1, 3, 1, 1), persistent=False)

    def normalise(self, x: Tensor) -> Tensor:
        """Normalises images `(B, 3, S, S)` in [0, 1] with the mean and standard deviation of each channel."""
        return (x - self.mean) / self.std

    def maps(self, x: Tensor, strides: Iterable[int] = STRIDES) -> dict[int, Tensor]:
        """Computes feature maps `(B, widths[s], S / s, S / s)`, by stride s, of images x `(B, 3, S, S)` in [0, 1].

        The result is ordered from fine to coarse. Layers after the coarsest requested map are not computed. Raises
        ValueError if `strides` is empty or contains a stride that is not in STRIDES.
        """
        return self.arch.maps(self.net, self.normalise(x), ordered(strides))

    def onwards(self, maps: dict[int, Tensor], strides: Iterable[int] = STRIDES) -> dict[int, Tensor] | None:
        """Returns the maps at `strides`, taken from `maps` or, if coarser, computed from the coarsest of `maps`.

        Returns None if the network, such as a transformer, cannot compute coarser maps from a single map.
        """
        requested, last = ordered(strides), max(maps)
        coarser = tuple(s for s in requested if s > last)
        computed = self.arch.onwards(self.net, maps[last], last, coarser) if coarser else {}
        return None if computed is None else {s: maps[s] if s in maps else computed[s] for s in requested}

    @staticmethod
    def pool(maps: dict[int, Tensor]) -> Tensor:
        """Returns the pooled features `(B, F)`: the mean over all positions of the map at the coarsest stride, 32."""
        return F.adaptive_avg_pool2d(maps[STRIDES[-1]], 1).flatten(1)

    def backbone(self, x: Tensor) -> Tensor:
        """Computes the pooled features `(B, F)` of images `(B, 3, S, S)` in [0, 1], where F is `features`."""
        return self.pool(self.maps(x, STRIDES[-1:]))

    def project(self, h: Tensor) -> Tensor:
        """Projects pooled features `(B, F)` to `(B, config.dim)`, scaled to length 1 if `config.unit` is set."""
        z: Tensor = self.head(h)
        return F.normalize(z.float(), dim=1) if self.config.unit else z

    def forward(self, x: Tensor) -> Tensor:
        """Computes the projections f_theta(x), `(B, config.dim)`, of images `(B, 3, S, S)` in [0, 1]."""
        return self.project(self.backbone(x))


def build_encoder(config: EncoderConfig) -> Encoder:
    """Builds a new encoder according to `config`, without changing the global random state.

    With the init `auto`, a backbone whose weights are not on this machine is replaced by SUBSTITUTE, whose weights come
    with the installation; the encoder's `config` and `origin` record this. If those are missing too, the weights are
    random. With other inits, raises BadWeights, a ValueError that says what to do, if weights are not available.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        encoder = Encoder(config)
    pretrained = _first_weights(encoder)
    if pretrained is None and config.init == "auto" and find(SUBSTITUTE).bundled() is not None:
        encoder = build_encoder(config.replace(arch=SUBSTITUTE))
        encoder.origin["instead_of"] = config.arch
        warnings.warn(f"{config.arch} has no weights on this machine: {SUBSTITUTE} takes its place", stacklevel=2)
    elif pretrained is not None:
        fill(encoder, pretrained.state, pretrained.source)
        sha256 = weights.digest(encoder.net.state_dict())
        encoder.origin = {"source": pretrained.source, "licence": pretrained.licence, "sha256": sha256}
    return encoder


def fill(encoder: Encoder, state: dict[str, Tensor], source: str) -> None:
    """Copies the weights `state` into the backbone of an encoder, and into its head if names and shapes agree.

    `source` names the source of the weights in error messages. Raises BadWeights if a weight of the backbone is missing
    or has another shape.
    """
    backbone = {n: v for n, v in encoder.net.state_dict().items() if not n.endswith("num_batches_tracked")}
    heads = {n: v for n, v in state.items() if n.startswith("head.")}
    state = encoder.arch.rename(weights.plain(state, next(iter(backbone))), encoder.net)
    with torch.no_grad():
        for name, value in backbone.items():
            if name not in state:
                raise weights.BadWeights(f"{source} is not a {encoder.config.arch}: it has no {name}")
            if state[name].shape != value.shape:
                raise weights.BadWeights(
                    f"{source} is not a {encoder.config.arch}: "
                    f"its {name} is {tuple(state[name].shape)}, not {tuple(value.shape)}"
                )
            value.copy_(state[name])
        head = {f"head.{name}": value for name, value in encoder.head.state_dict().items()}
        # A head is copied completely or not at all, because a partly trained head is useless.
        if all(name in heads and heads[name].shape == value.shape for name, value in head.items()):
            for name, value in head.items():
                value.copy_(heads[name])


def _first_weights(encoder: Encoder) -> Pretrained | None:
    init = encoder.config.init
    if init == "random":
        return None
    if init == "auto":
        return encoder.arch.bundled()
    if init == "imagenet":
        return encoder.arch.imagenet()
    entry = weights.describe_weights(init)
    return Pretrained(encoder.arch.read(init, encoder.net), init, entry.get("licence") or "of whoever made the file")


def save_encoder(
    encoder: Encoder,
    folder: Path | str,
    extra: dict[str, Any] | None = None,
    centres: Tensor | None = None,
    half: bool = False,
    class_head: ClassHead | None = None,
) -> None:
    """Writes encoder.safetensors, encoder.json and, if given, the centres into `folder`.

    encoder.json holds the configuration, `extra`, the origin of the initial weights and the SHA-256 of the saved
    weights. It is written last, so a folder that contains it is complete.

    Args:
        extra: JSON values to store in encoder.json.
        centres: Class centres `(k + 1, D)`, or None.
        half: Whether to save weights in float16, for encoders that are not trained further.
        class_head: Class head to save. Defaults to `encoder.class_head`.
    """
    folder = Path(folder)
    if centres is not None:
        write_tensors(folder / CENTRES, {"centres": centres.to(torch.float32)})
    head = class_head or encoder.class_head
    state = encoder.state_dict()
    if head is not None:
        state |= {f"class_head.{name}": value for name, value in head.state_dict().items()}
    if half:
        state = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    write_tensors(folder / WEIGHTS, state)
    saved = {"encoder": encoder.config.to_dict(), "extra": extra or {}, "class_head": head and head.to_dict()}
    write_json(folder / ABOUT, saved | {"origin": encoder.origin, "sha256": weights.digest(state)})


def load_encoder(folder: Path | str, device: torch.device | str = "cpu") -> Encoder:
    """Loads the encoder saved in `folder`, in evaluation mode. Raises BadWeights if it is absent or damaged."""
    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        raise weights.BadWeights(f"{folder} holds no encoder ({ABOUT}); give the folder of a finished pre-training run")
    try:
        saved = json.loads((folder / ABOUT).read_text())
        config = EncoderConfig.from_dict(saved["encoder"])
        with torch.random.fork_rng(devices=[]):  # all random weights are replaced below
            encoder = Encoder(config)
            if saved.get("class_head"):
                encoder.class_head = ClassHead(**saved["class_head"])
        state = load_file(folder / WEIGHTS)
        if saved.get("sha256", "") not in ("", weights.digest(state)):
            raise OSError(f"{WEIGHTS} does not have the SHA-256 in {ABOUT}")
        encoder.load_state_dict(state)
        encoder.origin = saved.get("origin", {"source": config.init})
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise weights.BadWeights(f"the encoder in {folder} cannot be read: {error}") from error
    return encoder.to(device).eval()


def load_centres(folder: Path | str) -> Tensor | None:
    """Returns the centres c_0 to c_k saved with an encoder, float32 `(k + 1, D)`, or None if none were saved."""
    path = Path(folder) / CENTRES
    return load_file(path)["centres"] if path.is_file() else None
