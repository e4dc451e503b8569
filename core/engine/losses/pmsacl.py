"""The losses of PMSACL, in float32: l_PMSACL (Eqs. 4, 5, 7), l_ctr (Eq. 3), l_aug (Eq. 8), l_pos (Eq. 9).

l_PMSACL contrasts samples centred by class (Eq. 6, `centred.py`), with a temperature per pair of classes.
`variance_loss` is our addition, after VICReg. The contrastive losses of other papers follow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.losses.centred import centred

CENTRINGS, POSITIVES = ("both", "denominator"), ("view", "class")


def kappa(labels: Tensor, tau: float, alpha: float) -> Tensor:
    """Computes kappa(n, m) for all pairs of samples (PMSACL Eq. 7): labels (M,) -> (M, M).

    kappa is 1 / (alpha tau) if two samples have the same class, else 1 / tau. In the paper samples of one class should
    repel each other less, which requires alpha > 1, although it calls alpha 'smaller'. Any positive alpha is allowed
    here; alpha = 1 gives the plain contrastive loss. Raises ValueError unless tau and alpha are above 0.
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
    """Computes l_PMSACL, the contrastive loss of features centred by their class (PMSACL Eqs. 4, 5 and 7).

    It is the mean over samples i, whose partner is p, of
    -log( exp(f_i . f_p / tau) / sum over j != i of exp(kappa_ij f_i . f_j) ), where f is a sample's feature minus the
    centre of its class, scaled to length 1, and kappa_ij is 1 / (alpha tau) if i and j are of one class, else 1 / tau.
    The sum includes the partner, as printed: with alpha other than 1 the loss can be negative.

    Args:
        z: (M, D) features of the views, in any order: two weak views of each image that MedMix made.
        labels: (M,) class n of each, 0 to k.
        partners: (M,) for each view, the index of the other view of the same image.
        centres: (k + 1, D), the centre of each class; they get no gradient.
        tau: Temperature, above 0.
        alpha: Factor of the temperature between samples of one class, above 0; above 1 they repel each other less.
        centring: `both`; or `denominator` (not in the paper): features in the numerator are not centred.
        positives: `view`; or `class` (not in the paper): the numerator uses the mean cosine with views of other images
            of the class instead of the cosine with the partner.

    Returns:
        A scalar in float32.

    Raises:
        ValueError: If shapes do not fit, there is no sample, or an argument is invalid. Values of labels and partners
            are checked on a CPU only, because the check would have to wait for a GPU.

    Example:
        >>> import torch
        >>> from pmsacl_studio import pmsacl_loss
        >>> z, labels, centres = torch.eye(4), torch.tensor([0, 1, 0, 1]), torch.zeros(2, 4)
        >>> round(float(pmsacl_loss(z, labels, partners=torch.tensor([2, 3, 0, 1]), centres=centres)), 4)
        1.0986
    """
    z, labels, partners, centres = map(torch.as_tensor, (z, labels, partners, centres))
    if centring not in CENTRINGS or positives not in POSITIVES:
        raise ValueError(f"centring is one of {CENTRINGS}, positives one of {POSITIVES}; not {centring}, {positives}")
    if z.ndim != 2 or not labels.shape == partners.shape == z.shape[:1] or centres.shape[1:] != z.shape[1:]:
        raise ValueError(
            f"z is (M, D), labels and partners (M,), centres (k+1, D); "
            f"not {tuple(z.shape)}, {tuple(labels.shape)}, {tuple(partners.shape)}, {tuple(centres.shape)}"
        )
    if not len(z):
        raise ValueError("z holds no sample; the loss is a mean over samples and needs two views of an image at least")
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
    """Raises ValueError unless labels (M,) lie below `classes` and each partner (M,) is another sample of its class."""
    for name, values, end in (("labels", labels, classes), ("partners", partners, len(labels))):
        if values.is_floating_point() or values.dtype == torch.bool:
            raise ValueError(f"{name} are whole numbers, not {values.dtype}")
        if bool(((values < 0) | (values >= end)).any()):
            raise ValueError(f"{name} lie from 0 to {end - 1}, not from {int(values.min())} to {int(values.max())}")
    wrong = (labels[partners] != labels) | (partners == torch.arange(len(labels), device=partners.device))
    if bool(wrong.any()):
        i = int(wrong.nonzero()[0])
        raise ValueError(
            f"partners[{i}] is {int(partners[i])}, of class {int(labels[partners[i]])}: the partner of a sample is the "
            f"other view of its image, so another sample of its class, {int(labels[i])}"
        )


def loss_of_a_constant(feature: Tensor, labels: Tensor, centres: Tensor, tau: float, alpha: float) -> Tensor:
    """Computes the value that `pmsacl_loss` has if all samples have the same feature (D,).

    An encoder that does not distinguish images reaches this value. A different centre is subtracted for each class, so
    even a constant feature gives each class a separate direction; all positives then have cosine 1, for any `centring`
    and `positives`. labels: (M,). centres: (k+1, D). It is computed from the (k+1)^2 pairs of classes instead of the
    M^2 pairs of samples. Returns a scalar, float32.
    """
    classes = torch.arange(len(centres), device=labels.device)
    counts = F.one_hot(labels, len(centres)).sum(0)  # `bincount` would wait for a GPU
    f = centred(feature.float().expand(len(centres), -1), classes, centres.detach().float())
    logits = kappa(classes, tau, alpha) * (f @ f.T)
    repelling = counts[None] - torch.eye(len(counts), device=counts.device)  # the sample itself does not repel
    repel = (logits + repelling.clamp(min=0).log()).logsumexp(1)
    return (torch.where(counts > 0, repel, 0) * counts).sum() / counts.sum() - 1 / tau


def centring_loss(z: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Computes l_ctr, E || f_theta(a(x)) - c_n ||^2, which pulls each class to its centre (PMSACL Eq. 3).

    The squared Euclidean distance is averaged over samples, but summed over dimensions.

    z: (M, D), features. labels: (M,), class n of each. centres: (k+1, D), without gradient. Returns a scalar, float32.
    """
    z, centres = z.float(), centres.detach().float()
    return (z - centres[labels]).square().sum(1).mean()


def augmentation_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Computes l_aug, the cross-entropy -E log a_n^T f_beta(f_theta(a(x))) (PMSACL Eq. 8).

    It trains the classification of the strong augmentation A_n of each image.
    logits: (M, k+1), before the softmax. labels: (M,), class n of each. Returns a scalar, float32.
    """
    return F.cross_entropy(logits.float(), labels)


def position_loss(logits: Tensor, places: Tensor) -> Tensor:
    """Computes l_pos, the cross-entropy -E log p^T f_gamma(f_theta(x_1), f_theta(x_2)) (PMSACL Eq. 9).

    It trains the prediction of the second patch's position relative to the first (Doersch et al. 2015).
    logits: (B, 8), before the softmax. places: (B,), which of the eight neighbours the second patch is.
    Returns a scalar, float32.
    """
    return F.cross_entropy(logits.float(), places)


EPSILON = 1e-4


def variance_loss(z: Tensor, labels: Tensor) -> Tensor:
    """Computes a hinge loss on the spread within classes: the mean over classes and dimensions of max(0, 1 - sd).

    sd is the standard deviation of unit features times the square root of their dimension. The hinge is taken from
    VICReg (Bardes, Ponce, LeCun 2022, Eq. 1). The term is not in the paper: because l_PMSACL centres by label, even a
    constant feature for all images lowers l_PMSACL. This term is about 1 for a constant feature, and 0 if directions
    within each class are spread as widely as uniformly random directions.

    z: (M, D), features. labels: (M,), class of each; classes with one sample are ignored. Returns a scalar, float32.
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
    """The contrastive loss of PMSACL (Eqs. 4 to 7) as a module that stores the class centres in a buffer.

    See `pmsacl_loss` for the formula.

    Args:
        centres: (k + 1, D), the mean feature of each class A_0 to A_k by the untrained encoder (Eq. 2); they are
            not trained.
        tau: Temperature (Eq. 7), above 0.
        alpha: Factor of tau between samples of one class, above 0; above 1 they repel each other less (Eq. 7).

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
        kappa(torch.zeros(1), tau, alpha)  # raises ValueError at once instead of in the first step
        centres = torch.as_tensor(centres, dtype=torch.float32).detach().clone()
        if centres.ndim != 2 or len(centres) < 2 or not bool(centres.isfinite().all()):
            raise ValueError(f"centres are finite and (k + 1, D), with two classes or more, not {tuple(centres.shape)}")
        self.register_buffer("centres", centres)
        self.tau, self.alpha = tau, alpha

    def forward(self, z: Tensor, labels: Tensor, partners: Tensor) -> Tensor:
        """Computes the loss, a scalar in float32.

        Args:
            z: (M, D) features of the views, in any order: two weak views of each image that MedMix made.
            labels: (M,) class of each, 0 to k.
            partners: (M,) for each view, the index of the other view of the same image, which has the same class.

        Raises:
            ValueError: If shapes or values do not fit, or there is no sample.
        """
        loss = pmsacl_loss(z, labels, partners, self.centres, self.tau, self.alpha)
        if z.device.type != "cpu":
            check_pairs(labels, partners, len(self.centres))
        return loss


# Contrastive losses of other papers: NT-Xent (Chen et al. 2020) and the supervised one (Khosla et al. 2020).


def nt_xent(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Computes NT-Xent (Chen et al. 2020, Eq. 1), a contrastive loss without classes.

    It is the mean over samples i of -log( exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau) ), where
    u = z / ||z||. z: (M, D). partners: (M,), the index p of the other view of the same image. All other samples repel
    equally, whatever their class. Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    is_self = torch.eye(len(u), dtype=torch.bool, device=u.device)
    return F.cross_entropy((u @ u.T / tau).masked_fill(is_self, -torch.inf), partners)


def one_way(z: Tensor, partners: Tensor, tau: float = 0.2) -> Tensor:
    """Computes the one-way contrastive loss of Sohn et al. 2021, Eq. 3, as in their released code.

    It is the mean over first views i of -log( exp(u_i . u_p / tau) / sum over second views j of exp(u_i . u_j / tau) ),
    where u = z / ||z||. First views are never negatives, and second views are never anchors.
    z: (M, D). partners: (M,), the index of the other view of the same image; the view with the lower index is the first
    view. Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    row = torch.arange(len(u), device=u.device)
    first = (partners < row).to(torch.uint8).argsort(stable=True)[: len(u) // 2]  # those with a later partner
    return F.cross_entropy(u[first] @ u[partners[first]].T / tau, row[: len(first)])


def supcon_loss(z: Tensor, labels: Tensor, tau: float = 0.2) -> Tensor:
    """Computes the supervised contrastive loss L_out (Khosla et al. 2020, "Supervised Contrastive Learning", Eq. 2).

    It is the mean over samples i of -1/|P(i)| sum over p in P(i) of log s(i, p), where u = z / ||z|| and
    s(i, p) = exp(u_i . u_p / tau) / sum over j != i of exp(u_i . u_j / tau). z: (M, D). labels: (M,).
    P(i) are the other samples with the label of i; a sample without any contributes 0.
    Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1)
    is_self = torch.eye(len(u), dtype=torch.bool, device=u.device)
    logits = (u @ u.T / tau).masked_fill(is_self, -torch.inf)
    log_p = logits - logits.logsumexp(1, keepdim=True)
    positive = (labels[:, None] == labels[None]) & ~is_self
    return -(log_p.masked_fill(~positive, 0).sum(1) / positive.sum(1).clamp(min=1)).mean()
