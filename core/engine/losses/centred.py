"""Centring of features by class, for l_PMSACL (PMSACL Eq. 6).

The code accepts torch tensors and NumPy arrays without importing torch, so that the web server does not have to load
torch to centre features.
"""

from __future__ import annotations

from typing import Any, TypeVar

Array = TypeVar("Array", bound=Any)  # torch.Tensor or numpy.ndarray, the same for all arguments

LEAST = 1e-24  # squared length below which a difference counts as 0


def centred(z: Array, labels: Array, centres: Array) -> Array:
    """Subtracts the centre of its class from each feature vector and scales the difference to length 1 (PMSACL Eq. 6).

    Args:
        z: Feature vectors, `(M, D)`.
        labels: Class of each feature vector, `(M,)`, integers from 0 to k.
        centres: Centre of each class, `(k + 1, D)`.

    Returns:
        Unit vectors, `(M, D)`. A feature vector that equals the centre of its class becomes 0, without gradient.
    """
    difference = z - centres[labels]
    squared = (difference * difference).sum(1)[:, None]
    return difference * (squared > LEAST) / squared.clip(min=LEAST) ** 0.5
