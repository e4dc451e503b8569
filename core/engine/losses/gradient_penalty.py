"""The gradient penalty of WGAN-GP (Gulrajani et al. 2017, "Improved Training of Wasserstein GANs", Eq. 3)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, share: Tensor) -> Tensor:
    """Mean over samples of (|| gradient of the critic at share * real + (1 - share) * fake ||_2 - 1)^2, a scalar.

    critic: (B, ...) -> (B,); real, fake (B, ...); share (B,) in [0, 1], uniform draws. Neither input gets a gradient.
    """
    share = share.view(-1, *[1] * (real.ndim - 1))
    between = (share * real.detach() + (1 - share) * fake.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()
