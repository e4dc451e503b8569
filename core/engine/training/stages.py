"""Parts of an encoder by depth: what is frozen, and how fast the rest learns, when it starts from pretrained weights.

Early layers of a pretrained network see edges and textures that serve any image; to train them on a few hundred
images costs time and undoes them (Howard and Ruder 2018; Bao et al. 2022 for decay by layer).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder

SIDE = 64  # of the image that is passed once to see which layers run


@torch.no_grad()
def stages(encoder: Encoder) -> dict[int, list[nn.Module]]:
    """The backbone's layers by the finest stride whose map needs them; together they hold all its parameters.

    A layer is a module with parameters or buffers of its own. Those that no map runs through, such as a transformer's
    position embedding, count to the finest stride.
    """
    layers = [m for m in encoder.net.modules() if any(True for _ in _own(m))]
    probe = torch.zeros(1, 3, SIDE, SIDE, device=encoder.mean.device)
    found: dict[int, list[nn.Module]] = {}
    seen: set[nn.Module] = set()
    ran: dict[nn.Module, None] = {}  # in order
    hooks = [m.register_forward_pre_hook(lambda m, _: ran.setdefault(m)) for m in layers]
    training = encoder.training
    encoder.eval()  # one pass must leave no trace in running statistics
    for stride in STRIDES:
        ran.clear()
        encoder.maps(probe, (stride,))
        found[stride] = [m for m in ran if m not in seen]
        seen |= set(found[stride])
    for hook in hooks:
        hook.remove()
    encoder.train(training)
    found[STRIDES[0]] += [m for m in layers if m not in seen]
    return found


def parameter_groups(encoder: Encoder, frozen: int, rate: float, decay: float) -> list[dict[str, Any]]:
    """The encoder's parameters that learn, as groups of an optimiser, each with its share of the rate, `scale`.

    frozen: layers up to the map of this stride learn nothing (0: all learn); their parameters no longer ask for
    gradients. rate: share of the projection head's rate that the coarsest stage gets; each finer stage gets `decay` of
    the one after it.
    """
    groups = []
    for depth, (stride, layers) in enumerate(reversed(stages(encoder).items())):
        own = [p for layer in layers for p in layer.parameters(recurse=False)]
        for p in own:
            p.requires_grad_(stride > frozen)
        if own and stride > frozen:
            groups.append({"params": own, "scale": rate * decay**depth})
    return [*groups, {"params": list(encoder.head.parameters()), "scale": 1.0}]


def still_layers(encoder: Encoder, frozen: int, frozen_norm: bool) -> list[str]:
    """Names of the layers that stay in evaluation mode: the frozen, and with `frozen_norm` all batch norms."""
    if not frozen and not frozen_norm:
        return []
    names = {module: name for name, module in encoder.named_modules()}
    norm = nn.modules.batchnorm._BatchNorm
    return [
        names[layer]
        for stride, layers in stages(encoder).items()
        for layer in layers
        if stride <= frozen or (frozen_norm and isinstance(layer, norm))
    ]


def train_mode(encoder: Encoder, still: list[str]) -> Encoder:
    """The encoder in training mode, but for the layers named."""
    encoder.train()
    for name in still:
        encoder.get_submodule(name).eval()
    return encoder


def _own(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]
