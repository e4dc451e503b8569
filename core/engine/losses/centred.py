"""Features centred by their class, the vectors that l_PMSACL compares (Eq. 6).

The code accepts torch tensors and NumPy arrays without importing torch, so that the web server can centre features
without loading it.
"""

from __future__ import annotations

from typing import Any, TypeVar

Array = TypeVar("Array", bound=Any)  # torch.Tensor or numpy.ndarray, the same for all arguments

LEAST = 1e-12  # lower limit of the length by which a difference is divided


def centred(z: Array, labels: Array, centres: Array) -> Array:
    """Centres features by their class and scales them to unit length (Eq. 6).

    f^(n,l) = (f_theta(x^(n,l)) - c_n) / ||f_theta(x^(n,l)) - c_n||_2.
    z: (M, D). labels: (M,), class n of each, integers from 0 to k. centres: (k+1, D). Returns unit rows (M, D); a row
    that equals its centre becomes 0, without gradient.
    """
    difference = z - centres[labels]
    squared = (difference * difference).sum(1)[:, None]
    return difference / squared.clip(min=LEAST**2) ** 0.5
