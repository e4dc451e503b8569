"""Detects catastrophic collapse, in which all images get nearly the same features (Sec. Centering Strategies)."""

from __future__ import annotations

import copy
import math
from collections import deque
from statistics import median
from typing import Any

import torch
from torch import Tensor

from core.engine.objectives.config import REESTIMATED, PretrainConfig


def feature_state(z: Tensor, labels: Tensor, classes: int) -> dict[str, Tensor]:
    """Computes measures of collapse from the projections z `(V, D)` of a step and their class labels `(V,)`.

    Returns:
        spread: Root mean square distance of the projections from their mean.
        class_distances: Distances between the class means `(classes, classes)`.
        class_distance: Mean distance between two class means.
    """
    z = z.float()
    one_hot = torch.nn.functional.one_hot(labels, classes).float()  # (V, classes)
    means = (one_hot.T @ z) / one_hot.sum(0).clamp(min=1)[:, None]
    distances = (means[:, None] - means[None]).square().sum(2).sqrt()
    return {
        "spread": (z - z.mean(0)).square().sum(1).mean().sqrt(),
        "class_distances": distances,
        "class_distance": distances.sum() / max(1, classes * (classes - 1)),
    }


def relative_spread(h: Tensor) -> Tensor:
    """Computes the spread of features `(M, F)` relative to their root mean square length: 0 (all equal) to 1."""
    h = h.float()
    return ((h - h.mean(0)).square().sum(1).mean() / h.square().sum(1).mean().clamp(min=1e-24)).sqrt()


def remedies(config: PretrainConfig) -> str:
    """Returns a phrase that lists what to change in `config` after a collapse."""
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


FLOOR, CEILING = 0.1, 20.0  # smallest and largest spread in a healthy run, relative to the initial spread
WARM = 5  # number of first steps that determine the initial spread
PATIENCE = 3  # consecutive steps beyond the limits before an alarm, so that a single batch cannot raise an alarm
CALM = 20  # consecutive steps well within the limits before an alarm ends


class Gauge:
    """Tracks the ratio of the spread at each step to the median spread of the first WARM steps.

    `low`, `high` and `well` are the numbers of latest consecutive steps with a ratio below FLOOR, above CEILING, and
    between 2 FLOOR and CEILING / 2.
    """

    def __init__(self) -> None:
        self.first: list[float] = []
        self.low = self.high = self.well = 0
        self.ratio = 1.0

    def update(self, spread: float) -> None:
        if len(self.first) < WARM:
            self.first.append(spread)
            return
        self.ratio = spread / max(median(self.first), 1e-12)
        self.low = self.low + 1 if self.ratio < FLOOR else 0
        self.high = self.high + 1 if self.ratio > CEILING else 0
        self.well = self.well + 1 if 2 * FLOOR < self.ratio < CEILING / 2 else 0

    @property
    def closer(self) -> str:
        """How many times closer together the features are than at the start, as text."""
        return f"{1 / self.ratio:,.0f}" if self.ratio > 1e-3 else "more than 1,000"


PROJECTIONS, FEATURES = "projections", "features"


class CollapseWatch:
    """Monitor that detects collapsed features. Call `update` after each step; it returns the current alarm.

    It monitors the projections, which the losses use, and the backbone's features, which detectors use. An alarm starts
    if the spread of the projections or of the features, relative to the start, stays below FLOOR. It also starts if the
    spread of the projections stays above CEILING, because training then diverges soon. Collapsed features often spread
    again for a moment. An alarm therefore ends only after CALM steps between twice FLOOR and half CEILING.
    """

    def __init__(self, classes: int, remedy: str = "a lower learning rate") -> None:
        self.classes, self.remedy = classes, remedy
        self.gauges = {name: Gauge() for name in (PROJECTIONS, FEATURES)}
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
        """Records the metrics of a step; returns the current alarm as a sentence, or None if there is no alarm.

        Args:
            step: Number of the step.
            spread: Spread of the projections, see `feature_state`.
            class_distance: Mean distance between two class means, see `feature_state`.
            aug_accuracy: Accuracy of the class head, 0 to 1, or None if there is no class head.
            feature_spread: `relative_spread` of the backbone's features, or None if it is unknown.
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
        if self.alarm is None and max(z.low, h.low) >= PATIENCE:
            fallen = h if h.low >= PATIENCE else z
            suffix = "" if fallen is h else " in Z; the backbone's features, which detectors use, have not collapsed"
            self.alarm = (
                f"The features have collapsed (step {step}): all images now lie {fallen.closer} times closer together "
                f"than at the start{suffix}. The classes lie {class_distance:.2g} apart in Z.{self.accuracy()} "
                f"Start again with {self.remedy}."
            )
        elif self.alarm is None and z.high >= PATIENCE:
            self.alarm = (
                f"Training is diverging (step {step}): the features are {z.ratio:,.0f} times further apart than at "
                f"the start. Start again with {self.remedy}."
            )
        if self.alarm is not None and min(z.well, h.well) >= CALM:
            self.past, self.alarm = self.alarm, None
        return self.alarm

    def accuracy(self) -> str:
        """Returns a space and a sentence on the class accuracy over the last 10 steps, or '' if it is unknown."""
        if not self.recent:
            return ""
        accuracy = sum(self.recent) / len(self.recent)
        return f" The class of {accuracy:.0%} of the images is predicted correctly (chance: {1 / self.classes:.0%})."

    def state(self) -> dict[str, Any]:
        """Returns the state of the watch as JSON values for a checkpoint."""
        gauges = {name: copy.deepcopy(vars(gauge)) for name, gauge in self.gauges.items()}
        return {"gauges": gauges, "alarm": self.alarm, "past": self.past, "recent": list(self.recent)}

    def restore(self, state: dict[str, Any]) -> None:
        for name, values in state["gauges"].items():
            vars(self.gauges[name]).update(values)
        self.alarm, self.past = state["alarm"], state["past"]
        self.recent = deque(state["recent"], maxlen=10)
