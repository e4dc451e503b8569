"""l_PMSACL as a module that keeps its centres."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.engine.losses.pmsacl import pmsacl_loss


class PMSACLLoss(nn.Module):
    """PMSACL's contrastive loss (Eqs. 4 to 7) with the centres of the classes as a buffer.

    Args:
        centres: (k + 1, D), the mean features of A_0 to A_k of an encoder before the training; they stay as they are.
        tau: temperature (Eq. 7).
        alpha: factor of tau between samples of one class; above 1 they repel each other less (Eq. 7).

    Example:
        loss = PMSACLLoss(centres)(z, labels, partners)  # z (M, D), labels (M,), partners (M,)
    """

    centres: Tensor

    def __init__(self, centres: Tensor, tau: float = 0.2, alpha: float = 2.0) -> None:
        super().__init__()
        self.register_buffer("centres", torch.as_tensor(centres, dtype=torch.float32).detach().clone())
        self.tau, self.alpha = tau, alpha

    def forward(self, z: Tensor, labels: Tensor, partners: Tensor) -> Tensor:
        """The loss, a scalar, as `pmsacl_loss`."""
        return pmsacl_loss(z, labels, partners, self.centres, self.tau, self.alpha)
