"""Configuration of learning from marks."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config


@dataclass(frozen=True)
class LearntConfig(Config):
    """base: the detector that is learnt on from; base_run: the folder of a fitted one, '' to fit it by its defaults.

    base_side: of the images that the base sees, in pixels, where they are larger; 0: as they are given. width: of the
    decoder. steps, rate: of its training. tune: rate at which a copy of the encoder then learns too, for `tune_steps`,
    which is kept where that costs no marks left out; 0: the encoder always stays as it is. mirror: images are read
    mirrored as well, and the mean is taken. paste: whether marked lesions are pasted into normal images, in a quarter
    of the views, else marked images stand there; from ten marks on only if marks left out lose without it. folds:
    parts of the marks that are left out in turn. weights: of the base's map, and of its score, that are tried; the last
    is the safe one.
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
            raise BadConfig("steps and tune_steps are at least 1, folds at least 2, and width is a multiple of 16")
        if not self.weights or min(self.weights) < 0 or tuple(sorted(self.weights)) != self.weights:
            raise BadConfig("weights are 0 or more, ascending")
        if self.rate <= 0 or self.tune < 0:
            raise BadConfig("rate is above 0, and tune is not below")


def plural(count: int, noun: str) -> str:
    """Returns the count and its noun, which takes an s unless there is one: "3 marks"."""
    return f"{count} {noun}{'s' * (count != 1)}"
