"""Averaged weights: an exponential moving average whose memory grows with the steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

Tensors = tuple[Tensor, ...] | list[Tensor]


def averaged(net: nn.Module, decay: float) -> AveragedModel:
    """An average of `net`, its buffers included, that starts as a copy; call `update_parameters(net)` after each step.

    After step s the mean keeps min(decay, 1 - 1 / (s + 1)) of itself: the plain mean of all weights at first, since a
    long memory would hold the random start, and an exponential average later. Integer buffers are copied.
    """

    def blend(means: Tensors, now: Tensors, count: Any) -> None:
        kept = min(decay, 1 - 1 / (int(count) + 1))
        if means[0].is_floating_point():
            torch._foreach_lerp_(means, now, 1 - kept)
        else:
            torch._foreach_copy_(means, now)

    average = AveragedModel(net, multi_avg_fn=blend, use_buffers=True)
    average.n_averaged.fill_(1)  # the weights at the start are the first of those averaged
    return average
