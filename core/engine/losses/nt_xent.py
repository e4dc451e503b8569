"""NT-Xent, the plain contrastive loss (Chen et al. 2020, "A Simple Framework for Contrastive Learning", Eq. 1)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def nt_xent(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Mean over samples i of -log( exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau) ), u = z / ||z||.

    z (M, D); partners (M,) index p of the same instance's other view. Every other sample repels alike, whatever its
    class. Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    own = torch.eye(len(u), dtype=torch.bool, device=u.device)
    return F.cross_entropy((u @ u.T / tau).masked_fill(own, -torch.inf), partners)
