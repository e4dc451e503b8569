"""Options of the detector that learns from readers' annotations ("marks")."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config

ENOUGH = 4  # number of patients with annotations below which a fine-tuned encoder overfits


@dataclass(frozen=True)
class LearntConfig(Config):
    """Options of the detector that learns from readers' annotations."""

    base: str = "blend"  # detector whose heat map is combined with the learnt map
    base_run: str = ""  # folder of a fitted base, or '' to fit the base with its default options
    base_side: int = 0  # side length in pixels to which larger images are resized for the base; 0 for no resizing
    width: int = 32  # number of channels of the decoder
    steps: int = 300  # number of steps in which the decoder is trained
    rate: float = 5e-3  # learning rate of the decoder
    # Learning rate and steps of the fine-tuning of a copy of the encoder. A rate of 0 disables fine-tuning. The copy is
    # used unless the Dice on held-out annotations falls.
    tune: float = 2e-4
    tune_steps: int = 150
    mirror: bool = True  # whether predictions are averaged over the image and the mirrored image
    # Whether a quarter of the views show normal images with pasted annotated lesions instead of annotated images. With
    # ten or more annotations, lesions are pasted only if the Dice on held-out annotations falls without pasting.
    paste: bool = True
    folds: int = 3  # number of cross-validation folds
    weights: tuple[float, ...] = (0.5, 1.0, 2.0)  # ascending candidate weights of the base's map; the last is safest
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.tune_steps) < 1 or self.folds < 2 or self.width % 16 or self.width < 16:
            raise BadConfig("steps and tune_steps must be at least 1, folds at least 2, and width a multiple of 16")
        if not self.weights or min(self.weights) < 0 or tuple(sorted(self.weights)) != self.weights:
            raise BadConfig("weights must be 0 or more, and ascending")
        if self.rate <= 0 or self.tune < 0:
            raise BadConfig("rate must be above 0, and tune 0 or more")


def plural(count: int, noun: str) -> str:
    """Returns the count and the noun, in the plural unless the count is 1, such as "3 marks"."""
    return f"{count} {noun}{'s' * (count != 1)}"
