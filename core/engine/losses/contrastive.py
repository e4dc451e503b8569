"""Contrastive losses of other papers: NT-Xent (Chen et al. 2020) and the supervised one (Khosla et al. 2020)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def nt_xent(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Computes NT-Xent (Chen et al. 2020, Eq. 1), a contrastive loss without classes.

    Mean over samples i of -log( exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau) ), u = z / ||z||.
    z: (M, D). partners: (M,), the index p of the other view of the same instance. All other samples repel equally,
    whatever their class. Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    is_self = torch.eye(len(u), dtype=torch.bool, device=u.device)
    return F.cross_entropy((u @ u.T / tau).masked_fill(is_self, -torch.inf), partners)


def one_way(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Computes the one-way contrastive loss of Sohn et al. 2021, Eq. 3, as in their released code.

    Mean over first views i of -log( exp(u_i . u_p / tau) / sum over second views j of exp(u_i . u_j / tau) ).
    First views are never negatives, and second views are never anchors.
    z: (M, D), u = z / ||z||. partners: (M,), the index of the other view; the first view of an instance is the one with
    the lower index. Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    row = torch.arange(len(u), device=u.device)
    first = (partners < row).to(torch.uint8).argsort(stable=True)[: len(u) // 2]  # those with a later partner
    return F.cross_entropy(u[first] @ u[partners[first]].T / tau, row[: len(first)])


def supcon_loss(z: Tensor, labels: Tensor, tau: float = 0.2) -> Tensor:
    """Computes the supervised contrastive loss L_out (Khosla et al. 2020, "Supervised Contrastive Learning", Eq. 2).

    Mean over samples i of -1/|P(i)| sum over p in P(i) of log s(i, p).
    s(i, p) = exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau). z (M, D), u = z / ||z||; labels (M,).
    P(i): the other samples with the label of i; a sample without any adds 0.
    Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    is_self = torch.eye(len(u), dtype=torch.bool, device=u.device)
    logits = (u @ u.T / tau).masked_fill(is_self, -torch.inf)
    log_p = logits - logits.logsumexp(1, keepdim=True)
    positive = (labels[:, None] == labels[None]) & ~is_self
    return -(log_p.masked_fill(~positive, 0).sum(1) / positive.sum(1).clamp(min=1)).mean()
