"""Watch for catastrophic collapse: all images drawn to one point of the feature space (Sec. Centering Strategies)."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Any

import torch
from torch import Tensor

from core.engine.objectives.config import REESTIMATED, PretrainConfig


def feature_state(z: Tensor, labels: Tensor, classes: int) -> dict[str, Tensor]:
    """Computes the measures of collapse of one step's features z (V, D) and their classes (V,).

    spread: root of the mean squared distance to the mean of all. class_distances (classes, classes): between class
    means; class_distance: their mean. All in the units of Z.
    """
    z = z.float()
    one_hot = torch.nn.functional.one_hot(labels, classes).float()  # (V, classes)
    means = (one_hot.T @ z) / one_hot.sum(0).clamp(min=1)[:, None]
    apart = (means[:, None] - means[None]).square().sum(2).sqrt()
    return {
        "spread": (z - z.mean(0)).square().sum(1).mean().sqrt(),
        "class_distances": apart,
        "class_distance": apart.sum() / max(1, classes * (classes - 1)),
    }


def remedies(config: PretrainConfig) -> str:
    """Lists what to change of `config` after a collapse, most likely cause first."""
    hints = ["frozen centres"] if config.centres == REESTIMATED else []
    hints.append(f"a learning rate below {config.lr:g}")
    if config.w_ctr > 0.1:
        hints.append(f"a weight of l_ctr below {config.w_ctr:g}")
    if config.weak.crop[0] < 0.5:
        hints.append("weak crops that keep the lesions in view")
    return " or ".join([", ".join(hints[:-1]), hints[-1]] if len(hints) > 1 else hints)


_KEPT = ("first", "low", "high", "well", "alarm", "past")


class CollapseWatch:
    """A watch that says in a sentence when the features have collapsed; updated once a step.

    The measure of spread is the run's own: the median over its first `warm` steps. An alarm takes `patience` steps in a
    row below `floor` of it, so that one odd batch gives none; it ends after `calm` steps in a row with spread back
    above twice the floor, since features that have collapsed often burst apart for a moment.
    Spread that grows beyond `ceiling` times the start gives an alarm too: training runs away before it breaks down.
    """

    def __init__(
        self,
        classes: int,
        remedy: str = "a lower learning rate",
        floor: float = 0.1,
        ceiling: float = 20.0,
        warm: int = 5,
        patience: int = 3,
        calm: int = 20,
    ) -> None:
        self.classes, self.remedy = classes, remedy
        self.floor, self.ceiling, self.warm, self.patience = floor, ceiling, warm, patience
        self.first: list[float] = []
        self.calm = calm
        self.low = self.high = self.well = 0
        self.alarm: str | None = None
        self.past: str | None = None  # the last alarm that ended
        self.recent: deque[float] = deque(maxlen=10)

    def update(self, step: int, spread: float, class_distance: float, aug_accuracy: float | None = None) -> str | None:
        """Takes one step's numbers; returns the alarm standing now, or None.

        aug_accuracy in 0..1; None without a class head.
        """
        if not math.isfinite(spread):
            self.alarm = (
                f"Training broke down at step {step}: the features are no longer numbers. "
                f"Start again with {self.remedy}."
            )
            return self.alarm
        if aug_accuracy is not None:
            self.recent.append(aug_accuracy)
        if len(self.first) < self.warm:
            self.first.append(spread)
            return None
        ratio = spread / max(median(self.first), 1e-12)
        self.low = self.low + 1 if ratio < self.floor else 0
        self.high = self.high + 1 if ratio > self.ceiling else 0
        if self.alarm is None and self.low >= self.patience:
            closer = f"{1 / ratio:,.0f}" if ratio > 1e-3 else "more than 1,000"
            self.alarm = (
                f"The features have collapsed (step {step}): all images now lie {closer} times closer together "
                f"than at the start, the classes {class_distance:.2g} apart.{self.accuracy()} "
                f"Stop this run and take {self.remedy}."
            )
        elif self.alarm is None and self.high >= self.patience:
            self.alarm = (
                f"Training is running away (step {step}): the features are {ratio:,.0f} times further apart than at "
                f"the start. Stop this run and take {self.remedy}."
            )
        self.well = self.well + 1 if 2 * self.floor < ratio < self.ceiling / 2 else 0
        if self.alarm is not None and self.well >= self.calm:
            self.past, self.alarm = self.alarm, None
        return self.alarm

    def accuracy(self) -> str:
        """Says how often the class was found over the last steps, as a sentence with a space before it, or ''."""
        if not self.recent:
            return ""
        accuracy = sum(self.recent) / len(self.recent)
        return f" The class of an image is found {accuracy:.0%} of the time (guessing: {1 / self.classes:.0%})."

    def state(self) -> dict[str, Any]:
        """Gives what a checkpoint keeps."""
        return {**{name: getattr(self, name) for name in _KEPT}, "recent": list(self.recent)}

    def restore(self, state: dict[str, Any]) -> None:
        for name in _KEPT:
            setattr(self, name, state[name])
        self.recent = deque(state["recent"], maxlen=10)
