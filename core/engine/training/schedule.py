"""Optimisers and learning rates. A rate is a function of the step alone, so it needs no state to be resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from core.engine.objectives.config import PretrainConfig

WARM, START, END = 0.3, 1 / 25, 1 / 25e4  # torch's OneCycleLR: share of the rise, first and last factor of the peak


def learning_rate(config: PretrainConfig, step: int, steps: int) -> float:
    """Rate of step 0..steps-1, `config.lr` at its highest."""
    if config.schedule == "constant" or steps < 2:
        return config.lr
    if config.schedule == "cosine":
        return config.lr * _glide(1.0, 0.0, step / steps)
    top = max(1.0, WARM * steps - 1)
    if step <= top:
        return config.lr * _glide(START, 1.0, step / top)
    return config.lr * _glide(1.0, END, (step - top) / max(1.0, steps - 1 - top))


def warm_cosine(step: int, steps: int, warmup: float, least: float = 0.02) -> float:
    """Share of the highest rate at step 0..steps-1: up over the first `warmup` of the steps, down along a cosine."""
    at = step / steps
    phase = at / warmup - 1 if at < warmup else (at - warmup) / (1 - warmup)
    return max(least, (1 + math.cos(math.pi * phase)) / 2)


def polynomial(step: int, steps: int, power: float) -> float:
    """Share of the first rate at step 0..steps-1: (1 - step / steps) ** power."""
    return (1 - step / steps) ** power


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of all parameters; a group with a `scale` takes that share of it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)


def _glide(start: float, end: float, part: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


def build_optimiser(config: PretrainConfig, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    """SGD with momentum (the paper's) or AdamW, over parameters of the encoder and the objective, or groups."""
    parameters = list(parameters)
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters, config.lr, config.momentum, weight_decay=config.weight_decay)
    return torch.optim.AdamW(parameters, config.lr, (config.momentum, 0.999), weight_decay=config.weight_decay)
