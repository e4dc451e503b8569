"""l_PMSACL: contrast samples centred by their own class, with a temperature per pair of classes.

PMSACL Eqs. 4 (mean over samples), 5 (one sample), 6 (centred features) and 7 (temperature).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.losses.centred import centred


def kappa(labels: Tensor, tau: float, alpha: float) -> Tensor:
    """kappa(n, m): 1 / (alpha tau) where two samples share a class, else 1 / tau (PMSACL Eq. 7). labels (M,) -> (M, M).

    The text wants samples of one class to repel each other less, which takes alpha > 1 although it calls alpha
    'smaller'; alpha is free here, and alpha = 1 is the plain contrastive loss.
    """
    same = labels[:, None] == labels[None]
    one = torch.ones((), device=labels.device)
    return torch.where(same, one / (alpha * tau), one / tau)


def pmsacl_loss(
    z: Tensor,
    labels: Tensor,
    partners: Tensor,
    centres: Tensor,
    tau: float = 0.2,
    alpha: float = 2.0,
    *,
    centring: str = "both",
    positives: str = "view",
) -> Tensor:
    """Mean over samples i of -log( exp(f_i . f_p / tau) / sum over j != i of exp(kappa(n_i, n_j) f_i . f_j) ).

    z (M, D); labels (M,) class n; partners (M,) index p of the same mixed image's other weak view; centres (k+1, D).
    As printed (PMSACL Eqs. 4 and 5), the positive stays in the denominator, there at 1/(alpha tau): with alpha != 1
    the loss can be negative. Returns a scalar, float32. No gradient reaches the centres.

    Ours, not the paper's: with centring = `denominator` the numerator compares features that are not centred; with
    positives = `class` it is the mean cosine with the views of all other images of the class.
    """
    f = centred(z.float(), labels, centres.detach().float())
    cosine = f @ f.T
    own = torch.eye(len(f), dtype=torch.bool, device=f.device)
    repel = (kappa(labels, tau, alpha) * cosine).masked_fill(own, -torch.inf)
    if centring == "denominator":
        f = F.normalize(z.float(), dim=1)
        cosine = f @ f.T
    attract = cosine.gather(1, partners[:, None])[:, 0]
    if positives == "class":
        others = (labels[:, None] == labels[None]) & ~own
        others.scatter_(1, partners[:, None], False)
        count = others.sum(1)
        attract = torch.where(count > 0, (cosine * others).sum(1) / count.clamp(min=1), attract)
    return (torch.logsumexp(repel, 1) - attract / tau).mean()


def loss_of_a_constant(feature: Tensor, labels: Tensor, centres: Tensor, tau: float, alpha: float) -> Tensor:
    """`pmsacl_loss` if all samples had one feature (D,): what is reached without telling any image from another.

    Centring takes another centre from each class, so even one constant gives each class a direction of its own; all
    positives then have cosine 1, whatever `centring` and `positives` are. labels (M,); centres (k+1, D). From the
    (k+1)^2 pairs of classes instead of the M^2 of samples. Returns a scalar, float32.
    """
    classes, each = torch.arange(len(centres), device=labels.device), torch.bincount(labels, minlength=len(centres))
    f = centred(feature.float().expand(len(centres), -1), classes, centres.detach().float())
    logits = kappa(classes, tau, alpha) * (f @ f.T)
    others = each[None] - torch.eye(len(each), device=each.device)  # the sample itself does not repel
    repel = (logits + others.clamp(min=0).log()).logsumexp(1)
    return (torch.where(each > 0, repel, 0) * each).sum() / each.sum() - 1 / tau
