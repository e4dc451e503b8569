"""l_aug: tell which class of strong augmentation an image went through (Eq. pretext_loss)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def augmentation_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """-E log a_n^T f_beta(.): cross-entropy of logits (M, k+1), before the softmax, against classes n (M,). Float32."""
    return F.cross_entropy(logits.float(), labels)
