"""Readers of known skill: ratings as Roe and Metz draw them (Academic Radiology 4 (1997) 298), to try the analysis.

A rating is the sum of the case's kind (0, or the separation where it is abnormal), and of normal deviates of the
reader, the case and their pairs, each once for both arms and once for each arm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from core.studio.trials import mrmc


@dataclass(frozen=True)
class RoeMetz:
    """A model of readers' ratings by variances: of reader, case and reader x case, with their interaction with the arm.

    Those of cases sum to 1. The defaults are Roe and Metz's structure HL (high correlation of cases, low variance of
    readers). areas: of the arms.
    """

    areas: tuple[float, ...] = (0.855, 0.855)
    reader: float = 0.0055
    arm_reader: float = 0.0055
    case: float = 0.3
    arm_case: float = 0.3
    reader_case: float = 0.2
    error: float = 0.2

    def ratings(self, rng: np.random.Generator, readers: int, normal: int, abnormal: int) -> np.ndarray:
        """Draws the ratings of t arms, r readers and n cases, (t, r, n): normal cases first."""
        t, n = len(self.areas), normal + abnormal
        kinds = np.repeat([0, 1], [normal, abnormal])
        spread = self.case + self.arm_case + self.reader_case + self.error + self.reader + self.arm_reader
        separation = np.sqrt(2 * spread) * stats.norm.ppf(self.areas)

        def drawn(variance: float, *shape: int) -> np.ndarray:
            return rng.normal(0, np.sqrt(variance), shape)

        # A reader's deviate is another one for each kind of case: it moves the curve, not the reader's scale.
        by_reader = drawn(self.reader, 1, readers, 2) + drawn(self.arm_reader, t, readers, 2)
        by_case = drawn(self.case, 1, 1, n) + drawn(self.arm_case, t, 1, n)
        pairs = drawn(self.reader_case, 1, readers, n) + drawn(self.error, t, readers, n)
        return separation[:, None, None] * kinds + by_reader[:, :, kinds] + by_case + pairs


def rejected(
    model: RoeMetz,
    trials: int,
    readers: int,
    normal: int,
    abnormal: int,
    seed: int = 0,
    alpha: float = 0.05,
    method: str = "jackknife",
) -> dict[str, float]:
    """Computes the share of simulated trials in which each of the three tests finds a difference."""
    rng = np.random.default_rng(seed)
    truth = np.repeat([False, True], [normal, abnormal])
    rejections = {"both": 0, "readers fixed": 0, "cases fixed": 0}
    for _ in range(trials):
        tests = mrmc.analyse(mrmc.area(model.ratings(rng, readers, normal, abnormal), truth), method).tests
        for name in rejections:
            rejections[name] += tests[name].p < alpha
    return {name: count / trials for name, count in rejections.items()}
