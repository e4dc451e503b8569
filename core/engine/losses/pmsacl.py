"""The losses of PMSACL in float32: l_PMSACL (Eqs. 4, 5, 7), l_ctr (Eq. 3), l_aug (Eq. 8) and l_pos (Eq. 9).

l_PMSACL is a contrastive loss on features centred by class (Eq. 6, `centred.py`), with a temperature for each pair of
classes. `variance_loss` is an addition of this project. The end of the file has contrastive losses of other papers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.losses.centred import centred

CENTRINGS, POSITIVES = ("both", "denominator"), ("view", "class")


def kappa(labels: Tensor, tau: float, alpha: float) -> Tensor:
    """Computes kappa(n, m), `(M, M)`, for all pairs of samples with the classes `labels`, `(M,)` (PMSACL Eq. 7).

    kappa is 1 / (alpha tau) for two samples of the same class, and 1 / tau otherwise. In the paper, samples of the same
    class should repel each other less. This requires alpha > 1, although the paper calls alpha 'smaller'. With alpha =
    1 the loss is the plain contrastive loss. Raises ValueError unless tau and alpha are above 0 and finite.
    """
    if not (0 < tau < math.inf and 0 < alpha < math.inf):
        raise ValueError(f"tau and alpha must be above 0 and finite, not {tau} and {alpha}")
    same = labels[:, None] == labels[None]
    unit = torch.ones((), device=labels.device)
    return torch.where(same, unit / (alpha * tau), unit / tau)


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
    """Computes l_PMSACL, the contrastive loss of features centred by class (PMSACL Eqs. 4, 5 and 7).

    The loss is the mean over samples i, whose partner is p, of -log( exp(f_i . f_p / tau) / sum over j != i of
    exp(kappa_ij f_i . f_j) ). Here f is a sample's feature minus the centre of its class, scaled to length 1. kappa_ij
    is 1 / (alpha tau) if i and j have the same class, else 1 / tau. The sum includes the partner, as printed in the
    paper, so that the loss can be negative unless alpha is 1.

    Args:
        z: Features of two weak views of each MedMix image, `(M, D)`, in any order.
        labels: Class of each view, `(M,)`, integers from 0 to k.
        partners: Index of the other view of the same image, `(M,)`.
        centres: Centre of each class, `(k + 1, D)`. The centres receive no gradient.
        tau: Temperature, above 0.
        alpha: Factor, above 0, of the temperature of same-class pairs. Above 1, they repel each other less.
        centring: `both` as in the paper, or `denominator` to centre features only in the denominator.
        positives: `view` as in the paper, or `class` to use the mean cosine with all views of other images of the same
            class instead of the cosine with the partner.

    Returns:
        The loss, a float32 scalar.

    Raises:
        ValueError: If shapes do not match, z is empty, or an argument is invalid. The values of labels and partners are
            checked only on a CPU, because the check would have to wait for a GPU.

    Example:
        >>> import torch
        >>> from pmsacl_studio import pmsacl_loss
        >>> z, labels, centres = torch.eye(4), torch.tensor([0, 1, 0, 1]), torch.zeros(2, 4)
        >>> round(float(pmsacl_loss(z, labels, partners=torch.tensor([2, 3, 0, 1]), centres=centres)), 4)
        1.0986
    """
    z, labels, partners, centres = map(torch.as_tensor, (z, labels, partners, centres))
    if centring not in CENTRINGS or positives not in POSITIVES:
        raise ValueError(f"centring must be in {CENTRINGS}, positives in {POSITIVES}, not {centring}, {positives}")
    if z.ndim != 2 or not labels.shape == partners.shape == z.shape[:1] or centres.shape[1:] != z.shape[1:]:
        raise ValueError(
            f"z must be (M, D), labels and partners (M,), centres (k+1, D), "
            f"not {tuple(z.shape)}, {tuple(labels.shape)}, {tuple(partners.shape)}, {tuple(centres.shape)}"
        )
    if not len(z):
        raise ValueError("z holds no sample, but a mean over samples needs at least two views of an image")
    if z.device.type == "cpu":
        check_pairs(labels, partners, len(centres))
    f = centred(z.float(), labels, centres.detach().float())
    cosine = f @ f.T
    is_self = torch.eye(len(f), dtype=torch.bool, device=f.device)
    repel = (kappa(labels, tau, alpha) * cosine).masked_fill(is_self, -torch.inf)
    if centring == "denominator":
        f = F.normalize(z.float(), dim=1)
        cosine = f @ f.T
    attract = cosine.gather(1, partners[:, None])[:, 0]
    if positives == "class":
        same_class = (labels[:, None] == labels[None]) & ~is_self
        same_class.scatter_(1, partners[:, None], False)
        count = same_class.sum(1)
        attract = torch.where(count > 0, (cosine * same_class).sum(1) / count.clamp(min=1), attract)
    return (torch.logsumexp(repel, 1) - attract / tau).mean()


def check_pairs(labels: Tensor, partners: Tensor, classes: int) -> None:
    """Raises ValueError unless each label is from 0 to `classes` - 1 and each partner another sample of that class."""
    for name, values, end in (("labels", labels, classes), ("partners", partners, len(labels))):
        if values.is_floating_point() or values.dtype == torch.bool:
            raise ValueError(f"{name} must be whole numbers, not {values.dtype}")
        if bool(((values < 0) | (values >= end)).any()):
            raise ValueError(
                f"{name} must lie from 0 to {end - 1}, not from {int(values.min())} to {int(values.max())}"
            )
    wrong = (labels[partners] != labels) | (partners == torch.arange(len(labels), device=partners.device))
    if bool(wrong.any()):
        i = int(wrong.nonzero()[0])
        raise ValueError(
            f"partners[{i}] is {int(partners[i])}, of class {int(labels[partners[i]])}, but must be the other view of "
            f"the same image, another sample of its class, {int(labels[i])}"
        )


def loss_of_a_constant(feature: Tensor, labels: Tensor, centres: Tensor, tau: float, alpha: float) -> Tensor:
    """Computes the value that `pmsacl_loss` takes if all samples have the same `feature`, `(D,)`.

    An encoder that does not distinguish images reaches this value. After centring, each class still has its own
    direction, and all positive pairs have a cosine of 1, whatever `centring` and `positives` are. The cost grows with
    the (k + 1)^2 pairs of classes, not with the M^2 pairs of samples. The other arguments are as in `pmsacl_loss`.
    """
    classes = torch.arange(len(centres), device=labels.device)
    counts = F.one_hot(labels, len(centres)).sum(0)  # `bincount` would have to wait for a GPU
    f = centred(feature.float().expand(len(centres), -1), classes, centres.detach().float())
    logits = kappa(classes, tau, alpha) * (f @ f.T)
    repelling = counts[None] - torch.eye(len(counts), device=counts.device)  # the sample itself does not repel
    repel = (logits + repelling.clamp(min=0).log()).logsumexp(1)
    return (torch.where(counts > 0, repel, 0) * counts).sum() / counts.sum() - 1 / tau


def centring_loss(z: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Computes l_ctr, the mean over samples of || f_theta(a(x)) - c_n ||^2 (PMSACL Eq. 3).

    Args:
        z: Features f_theta(a(x)), `(M, D)`.
        labels: Class n of each feature, `(M,)`.
        centres: Centre c_n of each class, `(k + 1, D)`. The centres receive no gradient.
    """
    z, centres = z.float(), centres.detach().float()
    return (z - centres[labels]).square().sum(1).mean()


def augmentation_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Computes l_aug, the cross-entropy of the predicted strong augmentation A_n (PMSACL Eq. 8).

    Args:
        logits: Predictions before the softmax, `(M, k + 1)`.
        labels: Class n of each sample, `(M,)`.
    """
    return F.cross_entropy(logits.float(), labels)


def position_loss(logits: Tensor, places: Tensor) -> Tensor:
    """Computes l_pos, the cross-entropy of the predicted relative position of two patches (PMSACL Eq. 9).

    Args:
        logits: Predictions before the softmax, `(B, 8)`.
        places: Index of the second patch among the eight neighbours of the first, `(B,)` (Doersch et al. 2015).
    """
    return F.cross_entropy(logits.float(), places)


EPSILON = 1e-4


def variance_loss(z: Tensor, labels: Tensor) -> Tensor:
    """Computes l_var, a hinge loss on the spread of features within each class. The paper does not have this term.

    Features are first scaled to the length sqrt(D). The loss is the mean over classes and dimensions of max(0, 1 - sd),
    as in VICReg (Bardes, Ponce, LeCun 2022, Eq. 1), where sd is the standard deviation within the class. The term is
    needed because l_PMSACL centres features by label, so that even a constant feature lowers l_PMSACL. The loss is
    about 1 for a constant feature, and about 0 for uniformly random directions within each class.

    Args:
        z: Features, `(M, D)`.
        labels: Class of each feature, `(M,)`. Classes with a single sample are ignored.
    """
    u = F.normalize(z.float(), dim=1) * z.shape[1] ** 0.5
    same = F.one_hot(labels).float()
    count = same.sum(0)
    is_spread = count > 1
    mean = same.T @ u / count.clamp(min=1)[:, None]
    squared = same.T @ (u - mean[labels]).square() / (count - 1).clamp(min=1)[:, None]
    hinge = F.relu(1 - (squared + EPSILON).sqrt()).mean(1)
    return torch.where(is_spread, hinge, 0).sum() / is_spread.sum().clamp(min=1)


class PMSACLLoss(nn.Module):
    """Module that computes the contrastive loss of PMSACL (Eqs. 4 to 7) and stores the class centres in a buffer.

    See `pmsacl_loss` for the formula.

    Args:
        centres: Mean features of the classes A_0 to A_k before training (Eq. 2), `(k + 1, D)`. They are not trained.
        tau: Temperature (Eq. 7), above 0.
        alpha: Factor, above 0, of the temperature of same-class pairs (Eq. 7). Above 1, they repel each other less.

    Raises:
        ValueError: If an argument is invalid.

    Example:
        >>> import torch
        >>> from pmsacl_studio import PMSACLLoss
        >>> loss = PMSACLLoss(centres=torch.randn(4, 16), tau=0.2)
        >>> z, labels = torch.randn(8, 16), torch.arange(4).repeat(2)  # two views of an image of each class
        >>> loss(z, labels, partners=torch.arange(8).roll(4)).shape
        torch.Size([])
    """

    centres: Tensor

    def __init__(self, centres: Tensor, tau: float = 0.2, alpha: float = 2.0) -> None:
        super().__init__()
        kappa(torch.zeros(1), tau, alpha)  # raises ValueError now instead of in the first step
        centres = torch.as_tensor(centres, dtype=torch.float32).detach().clone()
        if centres.ndim != 2 or len(centres) < 2 or not bool(centres.isfinite().all()):
            raise ValueError(f"centres must be finite and (k + 1, D), with k of at least 1, not {tuple(centres.shape)}")
        self.register_buffer("centres", centres)
        self.tau, self.alpha = tau, alpha

    def forward(self, z: Tensor, labels: Tensor, partners: Tensor) -> Tensor:
        """Computes the loss, a float32 scalar.

        Args:
            z: Features of two weak views of each MedMix image, `(M, D)`, in any order.
            labels: Class of each view, `(M,)`, integers from 0 to k.
            partners: Index of the other view of the same image, `(M,)`. Both views have the same class.

        Raises:
            ValueError: If shapes do not match, a label or partner is invalid, or z is empty.
        """
        loss = pmsacl_loss(z, labels, partners, self.centres, self.tau, self.alpha)
        if z.device.type != "cpu":
            check_pairs(labels, partners, len(self.centres))
        return loss


def nt_xent(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Computes NT-Xent, a contrastive loss without classes (Chen et al. 2020, Eq. 1).

    The loss is the mean over samples i, whose partner is p, of
    -log( exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau) ), where u = z / ||z||.

    Args:
        z: Features of M views, `(M, D)`.
        partners: Index of the other view of the same image, `(M,)`.
        tau: Temperature, above 0.
    """
    u = F.normalize(z.float(), dim=1)
    is_self = torch.eye(len(u), dtype=torch.bool, device=u.device)
    return F.cross_entropy((u @ u.T / tau).masked_fill(is_self, -torch.inf), partners)


def one_way(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Computes the one-way contrastive loss as in the released code of Sohn et al. (2021, Eq. 3).

    The loss is the mean over first views i of -log( exp(u_i . u_p / tau) / sum over second views j of exp(u_i . u_j /
    tau) ), where p is the partner of i and u = z / ||z||. The first view of an image is the view with the lower index.
    `z` has the shape `(M, D)`. `partners`, `(M,)`, holds the index of the other view of the same image.
    """
    u = F.normalize(z.float(), dim=1)
    row = torch.arange(len(u), device=u.device)
    first = (partners < row).to(torch.uint8).argsort(stable=True)[: len(u) // 2]  # views with a later partner
    return F.cross_entropy(u[first] @ u[partners[first]].T / tau, row[: len(first)])


def supcon_loss(z: Tensor, labels: Tensor, tau: float = 0.2) -> Tensor:
    """Computes L_out, the supervised contrastive loss (Khosla et al. 2020, Eq. 2).

    The loss is the mean over samples i of -1/|P(i)| times the sum over p in P(i) of
    log( exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau) ). Here u = z / ||z||, and P(i) holds the other
    samples of the class of i. A sample that is the only one of its class contributes 0.

    Args:
        z: Features of M samples, `(M, D)`.
        labels: Class of each sample, `(M,)`.
        tau: Temperature, above 0.
    """
    u = F.normalize(z.float(), dim=1)
    is_self = torch.eye(len(u), dtype=torch.bool, device=u.device)
    logits = (u @ u.T / tau).masked_fill(is_self, -torch.inf)
    log_p = logits - logits.logsumexp(1, keepdim=True)
    positive = (labels[:, None] == labels[None]) & ~is_self
    return -(log_p.masked_fill(~positive, 0).sum(1) / positive.sum(1).clamp(min=1)).mean()
