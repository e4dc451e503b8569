"""Bodies of trainings and fits."""

from __future__ import annotations

from app.routes._bodies.base import Body
from app.routes._types import Line, Name, Settings


class TrainingConfig(Body):
    config: Settings


class DryRun(TrainingConfig):
    study: Name


class Training(DryRun):
    """detectors: options of each detector that is fitted when the training ends, by its name."""

    detectors: dict[Name, Settings]
    name: Name = ""


class Fit(Body):
    detectors: dict[Name, Settings]


class Learn(Body):
    """fit: the scored fit to learn on from."""

    fit: Name


class Action(Body):
    value: Line = ""
