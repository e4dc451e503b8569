"""Optimisers and learning rates. Learning rates depend only on the step and have no state."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.objectives.config import PretrainConfig

WARM, START, END = 0.3, 1 / 25, 1 / 25e4  # torch's OneCycleLR: warm-up fraction, first and last rate over the peak
COSINE_END = 1e-3  # last rate of a cosine relative to the first, as in CCD's released code


def learning_rate(config: PretrainConfig, step: int, steps: int) -> float:
    """Returns the learning rate at a step from 0 to steps - 1. Its maximum is `config.lr`."""
    if config.schedule == "constant" or steps < 2:
        return config.lr
    if config.schedule == "cosine":
        return config.lr * _glide(1.0, COSINE_END, step / steps)
    top = max(1.0, WARM * steps - 1)
    if step <= top:
        return config.lr * _glide(START, 1.0, step / top)
    return config.lr * _glide(1.0, END, (step - top) / max(1.0, steps - 1 - top))


def warm_cosine(step: int, steps: int, warmup: float, least: float = 0.02) -> float:
    """Returns the learning rate at a step from 0 to steps - 1 as a factor of its maximum.

    During the first fraction `warmup` of all steps, the factor rises from 0 along a cosine; then it falls to 0 along a
    cosine. It is never below `least`.
    """
    at = step / steps
    phase = at / warmup - 1 if at < warmup else (at - warmup) / (1 - warmup)
    return max(least, (1 + math.cos(math.pi * phase)) / 2)


def polynomial(step: int, steps: int, power: float) -> float:
    """Returns the learning rate at a step as a factor of the initial rate: (1 - step / steps) ** power."""
    return (1 - step / steps) ** power


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of all parameter groups to `rate` times the group's `scale` (by default 1)."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)


def _glide(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2


def build_optimiser(config: PretrainConfig, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    """Builds SGD with momentum, as in the paper, or AdamW, for parameters or parameter groups."""
    parameters = list(parameters)
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters, config.lr, config.momentum, weight_decay=config.weight_decay)
    return torch.optim.AdamW(parameters, config.lr, (config.momentum, 0.999), weight_decay=config.weight_decay)


SIDE = 64  # side in pixels of the image that is passed through the encoder to see which layers run


@torch.no_grad()
def stages(encoder: Encoder) -> dict[int, list[nn.Module]]:
    """Returns the backbone's layers, grouped by the finest stride whose feature map depends on them.

    A layer is a module that directly holds parameters or buffers, so every parameter belongs to a layer. Layers that
    are not called as modules, such as a transformer that holds its position embedding, belong to the finest stride.
    """
    layers = [m for m in encoder.net.modules() if any(True for _ in _own(m))]
    probe = torch.zeros(1, 3, SIDE, SIDE, device=encoder.mean.device)
    modules: dict[int, list[nn.Module]] = {}
    earlier: set[nn.Module] = set()
    ran: dict[nn.Module, None] = {}  # used as an ordered set
    hooks = [m.register_forward_pre_hook(lambda m, _: ran.setdefault(m)) for m in layers]
    training = encoder.training
    encoder.eval()  # so that the pass does not change running statistics
    for stride in STRIDES:
        ran.clear()
        encoder.maps(probe, (stride,))
        modules[stride] = [m for m in ran if m not in earlier]
        earlier |= set(modules[stride])
    for hook in hooks:
        hook.remove()
    encoder.train(training)
    modules[STRIDES[0]] += [m for m in layers if m not in earlier]
    return modules


def parameter_groups(encoder: Encoder, frozen: int, rate: float, decay: float) -> list[dict[str, Any]]:
    """Returns the encoder's trained parameters as groups for an optimiser, each with a learning rate factor `scale`.

    Early layers of a pretrained network detect edges and textures of any image; training them on a few hundred images
    takes time and harms them (Howard and Ruder 2018; Bao et al. 2022 for decay by layer).

    Args:
        encoder: Encoder to train. Frozen parameters no longer require gradients.
        frozen: Layers up to the feature map at this stride are frozen; 0 freezes none.
        rate: Factor of the layers of the coarsest stride. The projection head has a factor of 1.
        decay: Factor of a stride relative to that of the next coarser stride.
    """
    groups = []
    for depth, (stride, layers) in enumerate(reversed(stages(encoder).items())):
        parameters = [p for layer in layers for p in layer.parameters(recurse=False)]
        for p in parameters:
            p.requires_grad_(stride > frozen)
        if parameters and stride > frozen:
            groups.append({"params": parameters, "scale": rate * decay**depth})
    return [*groups, {"params": list(encoder.head.parameters()), "scale": 1.0}]


def still_layers(encoder: Encoder, frozen: int, frozen_norm: bool) -> list[str]:
    """Returns the names of the layers that stay in evaluation mode during training.

    These are all layers up to the feature map at stride `frozen` and, if `frozen_norm` is set, all batch norms.
    """
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
    """Puts the encoder in training mode, except for the layers named in `still`, and returns the encoder."""
    encoder.train()
    for name in still:
        encoder.get_submodule(name).eval()
    return encoder


def _own(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]
