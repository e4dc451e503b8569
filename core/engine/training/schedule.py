"""Optimiser and learning rate. The rate is a function of the step alone, so it needs no state to be resumed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

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


def _glide(start: float, end: float, part: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


def build_optimiser(config: PretrainConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """SGD with momentum (the paper's) or AdamW, over the encoder's and the objective's parameters."""
    parameters = list(parameters)
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters, config.lr, config.momentum, weight_decay=config.weight_decay)
    return torch.optim.AdamW(parameters, config.lr, (config.momentum, 0.999), weight_decay=config.weight_decay)
