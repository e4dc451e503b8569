"""Random draws of a training: each step has generators of its own, so that a resumed training draws the same.

A generator follows from (seed, purpose, step) alone. No random state has to be kept, and what one purpose draws does
not depend on how much another one drew.
"""

from __future__ import annotations

import numpy as np
import torch

ORDER = 0  # of the images; `step` counts epochs
STEP = 1  # a step's batch, where it has no order, and its augmentations
CENTRES = 2  # images and augmentations that centres are estimated from
VALIDATION = 3  # augmentations of held-out images: the same at every epoch and in every run of a seed
PATCHES = 4  # which patches of an image are taken
SHARES = 5  # how much of each of two codes is mixed
JUDGES = 6  # lesions that fitted detectors are compared by


def generator(seed: int, purpose: int, step: int = 0) -> torch.Generator:
    """A generator on the CPU for each (seed, purpose, step), none of them negative. Raises ValueError if one is."""
    state = np.random.SeedSequence((seed, purpose, step)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> 1))
