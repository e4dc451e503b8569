"""Watch for catastrophic collapse: all images drawn to one point of the feature space (Sec. Centering Strategies)."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

import torch
from torch import Tensor


def feature_state(z: Tensor, labels: Tensor, classes: int) -> dict[str, Tensor]:
    """What the watch looks at, of one step's features z (V, D) and their classes (V,).

    spread: root of the mean squared distance to the mean of all. class_means (classes, D).
    class_distance: mean distance between two class means. All in the units of Z.
    """
    z = z.float()
    one_hot = torch.nn.functional.one_hot(labels, classes).float()  # (V, classes)
    means = (one_hot.T @ z) / one_hot.sum(0).clamp(min=1)[:, None]
    apart = (means[:, None] - means[None]).square().sum(2).clamp(min=0).sqrt()
    return {
        "spread": (z - z.mean(0)).square().sum(1).mean().sqrt(),
        "class_means": means,
        "class_distances": apart,
        "class_distance": apart.sum() / (classes * (classes - 1)),
    }


class CollapseWatch:
    """Fed once a step; says in plain words when the features have collapsed, and None while they have not.

    The measure of spread is the run's own: the median over its first `warm` steps. An alarm takes `patience` steps in a
    row below `floor` of it, so that one odd batch gives none; it ends when spread is back above twice the floor.
    """

    def __init__(self, classes: int, floor: float = 0.1, warm: int = 5, patience: int = 3) -> None:
        self.classes, self.floor, self.warm, self.patience = classes, floor, warm, patience
        self.first: list[float] = []
        self.low = 0
        self.alarm: str | None = None
        self.recent: deque[float] = deque(maxlen=10)

    def update(self, step: int, spread: float, class_distance: float, aug_accuracy: float | None) -> str | None:
        """One step's numbers -> the alarm standing now, or None. aug_accuracy in 0..1; None without a class head."""
        if not math.isfinite(spread):
            self.alarm = (
                f"Training broke down at step {step}: the features are no longer numbers. "
                "Take a lower learning rate and start again."
            )
            return self.alarm
        if len(self.first) < self.warm:
            self.first.append(spread)
            return None
        start = median(self.first)
        if aug_accuracy is not None:
            self.recent.append(aug_accuracy)
        part = spread / start if start > 0 else 0.0
        self.low = self.low + 1 if part < self.floor else 0
        if self.low >= self.patience and self.alarm is None:
            self.alarm = self._words(step, part, class_distance)
        elif part > 2 * self.floor:
            self.alarm = None
        return self.alarm

    def _words(self, step: int, part: float, class_distance: float) -> str:
        said = (
            f"The features have collapsed (step {step}): all images now lie within {part:.1%} of the spread "
            f"they began with, and the classes are {class_distance:.2g} apart."
        )
        if self.recent:
            seen = sum(self.recent) / len(self.recent)
            said += f" The class of an image is told rightly {seen:.0%} of the time (guessing: {1 / self.classes:.0%})."
        return said + " Stop this run; take frozen centres, a lower learning rate or a smaller weight of l_ctr."

    def state(self) -> dict:
        """What a checkpoint keeps."""
        return {"first": self.first, "low": self.low, "alarm": self.alarm, "recent": list(self.recent)}

    def restore(self, state: dict) -> None:
        self.first, self.low, self.alarm = list(state["first"]), state["low"], state["alarm"]
        self.recent = deque(state["recent"], maxlen=10)
