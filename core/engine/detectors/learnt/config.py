"""Options of learning from readers' annotations ("marks")."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config

ENOUGH = 4  # patients with marks: with fewer, a fine-tuned encoder overfits


@dataclass(frozen=True)
class LearntConfig(Config):
    """Options of learning from marks.

    base: the detector that is combined with the learnt map. base_run: folder of a fitted base, '' to fit it with its
    defaults. base_side: side in pixels to which larger images are resized for the base; 0 for no resizing.
    width: channels of the decoder. steps, rate: number of steps and learning rate of its training. tune, tune_steps:
    learning rate and steps of fine-tuning a copy of the encoder afterwards, which is used unless the Dice on held-out
    marks falls; a rate of 0 never fine-tunes. mirror: whether predictions are averaged over image and mirror image.
    paste: whether a quarter of the views show normal images with pasted annotated lesions, not annotated images; with
    ten or more marks, only if the Dice on held-out marks falls without pasting. folds: number of cross-validation
    folds. weights: candidate weights of the base's map, ascending; the largest is the safest.
    """

    base: str = "blend"
    base_run: str = ""
    base_side: int = 0
    width: int = 32
    steps: int = 300
    rate: float = 5e-3
    tune: float = 2e-4
    tune_steps: int = 150
    mirror: bool = True
    paste: bool = True
    folds: int = 3
    weights: tuple[float, ...] = (0.5, 1.0, 2.0)
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.tune_steps) < 1 or self.folds < 2 or self.width % 16 or self.width < 16:
            raise BadConfig("steps and tune_steps must be at least 1, folds at least 2, and width a multiple of 16")
        if not self.weights or min(self.weights) < 0 or tuple(sorted(self.weights)) != self.weights:
            raise BadConfig("weights must be 0 or more, and ascending")
        if self.rate <= 0 or self.tune < 0:
            raise BadConfig("rate must be above 0, and tune 0 or more")


def plural(count: int, noun: str) -> str:
    """Returns the count with its noun, which gets an s unless the count is 1: "3 marks"."""
    return f"{count} {noun}{'s' * (count != 1)}"
