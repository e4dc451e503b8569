"""Batch norm over the batches of all processes: what nn.SyncBatchNorm does on GPUs alone, on any device.

    with JointBatchNorm():
        h = encoder(images)  # in training mode: mean and variance of the joint batch

Every layer that calls torch.nn.functional.batch_norm is reached, timm's among them, and none is replaced, so that
checkpoints and saved encoders are those of one process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from core.engine import processes


class JointBatchNorm(TorchFunctionMode):
    """While it is entered, batch norm in training mode takes its statistics of all processes' batches."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.batch_norm and processes.world() > 1:
            return joint_batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def joint_batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """F.batch_norm with the statistics of all processes' x (B, C, ...); batches may differ in size.

    Each process sends mean, variance and count once; they are joined after Chan, Golub and LeVeque (1983), as no
    difference of large sums. Gradients flow through them to every process.
    """
    if not training:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    dims = [0, *range(2, x.ndim)]
    var, mean = torch.var_mean(x.float(), dims, correction=0)  # (C,)
    count = mean.new_full((1,), x.numel() / x.shape[1])
    parts = processes.gather(torch.cat([mean, var, count]))  # (P, 2 C + 1)
    means, variances = parts[:, :-1].chunk(2, 1)
    every = parts[:, -1].sum()
    share = (parts[:, -1] / every)[:, None]
    mean = (share * means).sum(0)
    var = (share * (variances + (means - mean).square())).sum(0)
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((var * every / (every - 1)).to(running_var.dtype), momentum)
    scale = torch.rsqrt(var + eps) if weight is None else torch.rsqrt(var + eps) * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    size = (1, -1, *[1] * (x.ndim - 2))
    return x * scale.to(x.dtype).view(size) + shift.to(x.dtype).view(size)
