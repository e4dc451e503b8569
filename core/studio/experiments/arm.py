"""One row of an experiment's table."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.config import Config
from core.engine.registry import DETECTORS


@dataclass(frozen=True)
class Arm(Config):
    """One row of a table. pretrain, fit: changes to the presets named, dotted keys allowed.

    encoder: an objective, or `untrained`; the latter takes `encoder.arch` and `encoder.init` of `pretrain`. An
    encoder with the same changes and seed is trained once for all its arms. sized: whether the encoder's side is the
    experiment's (--size); one of a preset with a side of its own keeps it. fit_size: side at which the detector sees
    images, 0 for the encoder's. closer: the detector sees a study of few and large images more closely (runs.sides).
    """

    label: str
    detector: str
    encoder: str = "pmsacl"
    preset: str = "quick"
    fit_preset: str = "quick"
    sized: bool = True
    fit_size: int = 0
    closer: bool = False
    pretrain: dict = field(default_factory=dict)
    fit: dict = field(default_factory=dict)

    def start(self) -> Config:
        """Returns the detector's settings before the changes of `fit`: those of its preset, if it has that one."""
        kind = DETECTORS.get(self.detector)
        return kind.presets.get(self.fit_preset) or kind.Config()


def medmix(preset: str) -> dict:
    """Returns the settings of a MedMix preset, as an arm's `pretrain` takes them."""
    return MEDMIX_PRESETS[preset].to_dict()
