"""How much a learnt map counts, and how far it is shrunk: tried on marked images that it was not learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.engine.calibration.percentiles import Calibration
from core.engine.config import Config
from core.engine.metrics.localisation import overlaps
from core.engine.metrics.pro import pro

LEAST = 2  # marked images, of as many patients where these are known: one is left out while the other is learnt from


@dataclass(frozen=True)
class Rule(Config):
    """share: of the learnt map beside the base's, 0 to 1. shrinkage: of the discriminant. images: marked ones.

    dice, pro: of this rule on marked images left out, on the cells' grid; base_dice, base_pro: of the base alone there.
    """

    share: float = 0.0
    shrinkage: float = 0.0
    images: int = 0
    dice: float | None = None
    pro: float | None = None
    base_dice: float | None = None
    base_pro: float | None = None


@dataclass
class Folds:
    """What is tried on. of (M,): the fold of each marked image, which `learnt` leaves out.

    base float32 (M, h, w) and normal_base (U, h, w): standardised maps of the base, of marked and of unseen normal
    images. lesion, inside bool (M, h, w): cells of the mask, and of the region of interest. normal_roi uint8
    (U, S, S) or None, and patients (U,) of the unseen normal images, or None.
    """

    of: np.ndarray
    base: np.ndarray
    normal_base: np.ndarray
    lesion: np.ndarray
    inside: np.ndarray
    normal_roi: np.ndarray | None = None
    patients: np.ndarray | None = None


def folds(count: int, most: int, seed: int, patients: np.ndarray | None) -> np.ndarray:
    """(count,) the fold of each image, at most `most` of about equal size; a patient's (count,) images share one."""
    _, whose = np.unique(np.arange(count) if patients is None else patients, return_inverse=True)
    order = np.random.default_rng(seed).permutation(whose.max() + 1)
    return np.asarray(order[whose] % min(most, len(order)))


def mixed(base: np.ndarray, learnt: np.ndarray, share: float) -> np.ndarray:
    """Standardised maps of both -> their mixture; a share of 0 is the base, of 1 the learnt map."""
    return np.asarray((1 - share) * base + share * learnt, np.float32)


def choose(tried: Folds, learnt: dict[float, tuple[np.ndarray, np.ndarray]], shares: Sequence[float]) -> Rule:
    """The rule with the largest sum of Dice and PRO over marked images left out; of equal ones that nearest the base.

    learnt: by shrinkage, standardised maps (M, h, w) of each marked image by a discriminant that has not seen its
    fold, and (F, U, h, w) of unseen normal images by each fold's discriminant. Dice is at the threshold that the
    mixture's maps of unseen normal images give.
    """
    best, alone = Rule(images=len(tried.base)), (0.0, 0.0)
    highest = -np.inf
    for shrinkage, (maps, normal) in learnt.items():
        for share in sorted(shares):
            if share == 0 and np.isfinite(highest):
                continue  # the base again
            dice, per_region = _tried(tried, maps, normal, share)
            if share == 0:
                alone = (dice, per_region)
            if dice + per_region > highest + 1e-9:
                highest = dice + per_region
                best = Rule(share, shrinkage if share else 0.0, len(tried.base), dice, per_region)
    return best.replace(base_dice=alone[0], base_pro=alone[1])


def _tried(tried: Folds, maps: np.ndarray, normal: np.ndarray, share: float) -> tuple[float, float]:
    """Mean Dice and PRO of the marked images; ones without a lesion cell in the region of interest are left out."""
    here = mixed(tried.base, maps, share)
    kept = (tried.lesion & tried.inside).any((1, 2))
    dice = np.full(len(here), np.nan)
    for fold in np.unique(tried.of[kept]):
        held = mixed(tried.normal_base, normal[fold], share)
        pixels = Calibration.of(np.zeros(1), held, tried.normal_roi, tried.patients).pixels
        assert pixels is not None  # it was made of maps
        rows = kept & (tried.of == fold)
        dice[rows] = overlaps(here[rows], tried.lesion[rows], pixels.threshold, tried.inside[rows])[0]
    found = pro(here[kept], tried.lesion[kept], tried.inside[kept]) if kept.any() else None
    return float(np.nanmean(dice)) if kept.any() else 0.0, float(found or 0.0)
