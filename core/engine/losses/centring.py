"""l_ctr, the multi-centring loss: draw each class to its own centre (PMSACL Eq. 3)."""

from __future__ import annotations

from torch import Tensor


def centring_loss(z: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """E || f_theta(a(x)) - c_n ||^2: squared Euclidean distance, averaged over samples and not over dimensions
    (PMSACL Eq. 3).

    z (M, D) features; labels (M,) class n of each; centres (k+1, D), which get no gradient. Returns a scalar, float32.
    """
    z, centres = z.float(), centres.detach().float()
    return (z - centres[labels]).square().sum(1).mean()
