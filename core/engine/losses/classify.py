"""l_aug: classify the strong augmentation that an image went through (PMSACL Eq. 8)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def augmentation_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy -E log a_n^T f_beta(f_theta(a(x))) (PMSACL Eq. 8).

    logits (M, k+1), before the softmax; labels (M,) class n of each. Returns a scalar, float32.
    """
    return F.cross_entropy(logits.float(), labels)
