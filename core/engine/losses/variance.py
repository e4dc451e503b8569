"""A hinge on how little the features of a class vary (Bardes, Ponce, LeCun 2022, VICReg, Eq. 1), within each class.

Not the paper's: l_PMSACL tells the label to the centring, so one constant feature for all images already lowers it.
This term is 1 for such a feature and 0 where directions within each class are spread as if drawn uniformly.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

EPSILON = 1e-4


def variance_loss(z: Tensor, labels: Tensor) -> Tensor:
    """Mean over classes and dimensions of max(0, 1 - sd), of unit features times the root of their dimension.

    z (M, D) features; labels (M,) class of each. A class of one sample does not count. Returns a scalar, float32.
    """
    u = F.normalize(z.float(), dim=1) * z.shape[1] ** 0.5
    same = F.one_hot(labels).float()
    count = same.sum(0)
    there = count > 1
    mean = same.T @ u / count.clamp(min=1)[:, None]
    squared = same.T @ (u - mean[labels]).square() / (count - 1).clamp(min=1)[:, None]
    hinge = F.relu(1 - (squared + EPSILON).sqrt()).mean(1)
    return torch.where(there, hinge, 0).sum() / there.sum().clamp(min=1)
