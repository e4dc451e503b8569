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


def relative_spread(h: Tensor) -> Tensor:
    """Computes the spread of features h (M, F) relative to their length: 0 if all lie in one point, 1 at most."""
    h = h.float()
    return ((h - h.mean(0)).square().sum(1).mean() / h.square().sum(1).mean().clamp(min=1e-24)).sqrt()


def remedies(config: PretrainConfig) -> str:
    """Lists what to change of `config` after a collapse, most likely cause first."""
    hints = ["frozen centres"] if config.centres == REESTIMATED else []
    random = config.encoder.init == "random"
    if not config.encoder.unit or random:
        start = "ImageNet weights and " if random else ""
        hints.append(f"{start}Z on the unit sphere (the preset paper has both)")
    if random and config.w_ctr > 2 / config.encoder.dim:
        hints.append(f"from random weights, a weight of l_ctr of {1 / config.encoder.dim:.2g} (the preset from-random)")
    if not hints:
        hints.append(f"a learning rate below {config.lr:g}")
    return " or ".join([", ".join(hints[:-1]), hints[-1]] if len(hints) > 1 else hints)


class Gauge:
    """Compares a spread with its median over the first `warm` steps, step by step.

    low, high: steps in a row below `floor` of it, above `ceiling` times it; well: clear of both.
    """

    def __init__(self, floor: float, ceiling: float, warm: int) -> None:
        self.floor, self.ceiling, self.warm = floor, ceiling, warm
        self.first: list[float] = []
        self.low = self.high = self.well = 0
        self.ratio = 1.0

    def update(self, spread: float) -> None:
        if len(self.first) < self.warm:
            self.first.append(spread)
            return
        self.ratio = spread / max(median(self.first), 1e-12)
        self.low = self.low + 1 if self.ratio < self.floor else 0
        self.high = self.high + 1 if self.ratio > self.ceiling else 0
        self.well = self.well + 1 if 2 * self.floor < self.ratio < self.ceiling / 2 else 0

    @property
    def closer(self) -> str:
        """How many times closer together the images lie than at the start, in words."""
        return f"{1 / self.ratio:,.0f}" if self.ratio > 1e-3 else "more than 1,000"


_OF_GAUGES = ("first", "low", "high", "well", "ratio")
PROJECTIONS, FEATURES = "projections", "features"


class CollapseWatch:
    """A watch that says in a sentence when training has collapsed; updated once a step.

    It looks at the projections, which the losses see, and at the backbone's features, which detectors read. An alarm
    takes `patience` steps in a row in which either has less than `floor` of the spread of its own first `warm` steps,
    so that one odd batch gives none; it ends after `calm` steps in a row with both back above twice the floor, since
    features that have collapsed often burst apart for a moment. Projections that spread beyond `ceiling` times the
    start give an alarm too: training runs away before it breaks down.
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
        self.classes, self.remedy, self.patience, self.calm = classes, remedy, patience, calm
        self.gauges = {name: Gauge(floor, ceiling, warm) for name in (PROJECTIONS, FEATURES)}
        self.alarm: str | None = None
        self.past: str | None = None  # the last alarm that ended
        self.recent: deque[float] = deque(maxlen=10)

    def update(
        self,
        step: int,
        spread: float,
        class_distance: float,
        aug_accuracy: float | None = None,
        feature_spread: float | None = None,
    ) -> str | None:
        """Takes one step's numbers; returns the alarm standing now, or None.

        spread: of the projections. aug_accuracy in 0..1; None without a class head. feature_spread: the relative
        spread of the backbone's features; None if it is unknown.
        """
        if not math.isfinite(spread):
            self.alarm = (
                f"Training broke down at step {step}: the features are no longer numbers. "
                f"Start again with {self.remedy}."
            )
            return self.alarm
        if aug_accuracy is not None:
            self.recent.append(aug_accuracy)
        z, h = self.gauges[PROJECTIONS], self.gauges[FEATURES]
        z.update(spread)
        h.update(1.0 if feature_spread is None else feature_spread)
        if self.alarm is None and max(z.low, h.low) >= self.patience:
            fallen = h if h.low >= self.patience else z
            rest = "" if fallen is h else " in Z; the backbone's features, which detectors read, have not collapsed"
            self.alarm = (
                f"The features have collapsed (step {step}): all images now lie {fallen.closer} times closer together "
                f"than at the start{rest}. The classes lie {class_distance:.2g} apart in Z.{self.accuracy()} "
                f"Start again with {self.remedy}."
            )
        elif self.alarm is None and z.high >= self.patience:
            self.alarm = (
                f"Training is running away (step {step}): the features are {z.ratio:,.0f} times further apart than at "
                f"the start. Start again with {self.remedy}."
            )
        if self.alarm is not None and min(z.well, h.well) >= self.calm:
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
        gauges = {name: {field: getattr(g, field) for field in _OF_GAUGES} for name, g in self.gauges.items()}
        return {"gauges": gauges, "alarm": self.alarm, "past": self.past, "recent": list(self.recent)}

    def restore(self, state: dict[str, Any]) -> None:
        for name, values in state["gauges"].items():
            vars(self.gauges[name]).update(values)
        self.alarm, self.past = state["alarm"], state["past"]
        self.recent = deque(state["recent"], maxlen=10)
