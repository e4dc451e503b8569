"""Features centred by their class, the vectors that l_PMSACL compares (Eq. 6).

Written with what torch's tensors and NumPy's arrays share and without importing torch, so that the page's process can
centre features at once.
"""

from __future__ import annotations

from typing import Any, TypeVar

Array = TypeVar("Array", bound=Any)  # torch.Tensor or numpy.ndarray, the same for all arguments

LEAST = 1e-12  # length that a difference is divided by at least


def centred(z: Array, labels: Array, centres: Array) -> Array:
    """Centres features by their class and scales them to unit length (Eq. 6).

    f^(n,l) = (f_theta(x^(n,l)) - c_n) / ||f_theta(x^(n,l)) - c_n||_2.
    z (M, D); labels (M,) class n of each, integers in 0..k; centres (k+1, D). Returns (M, D) unit rows; a row that
    equals its centre gives 0, and no gradient.
    """
    difference = z - centres[labels]
    squared = (difference * difference).sum(1)[:, None]
    return difference / squared.clip(min=LEAST**2) ** 0.5
