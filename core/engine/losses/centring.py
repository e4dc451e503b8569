"""l_ctr: draw each class to its own centre (Eq. center_loss)."""

from __future__ import annotations

from torch import Tensor


def centring_loss(z: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """E || f_theta(a(x)) - c_n ||^2: the squared Euclidean distance, averaged over samples (not over dimensions).

    z (M, D) features, labels (M,) class n of each, centres (k+1, D). Scalar, float32. No gradient reaches the centres.
    """
    z, centres = z.float(), centres.detach().float()
    return (z - centres[labels]).square().sum(1).mean()
