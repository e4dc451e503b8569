"""What learning from marks can be set to."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config


@dataclass(frozen=True)
class LearntConfig(Config):
    """base: the detector that is learnt on from; base_run: the folder of a fitted one, '' to fit it by its defaults.

    base_side: of the images that the base sees, in pixels, where they are larger; 0: as they are given. width: of the
    decoder. steps, rate: of its training. views: of each marked image, of all together at least `least_views` and at
    most `most_views`; half as many with a pasted lesion, unless `paste` is off, and of normals. folds: parts of the
    marks that are left out in turn. weights: of the base's map, and of its score, that are tried; the last is the safe
    one.
    """

    base: str = "blend"
    base_run: str = ""
    base_side: int = 0
    width: int = 64
    steps: int = 300
    rate: float = 5e-3
    views: int = 32
    least_views: int = 320
    most_views: int = 640
    paste: bool = True
    folds: int = 3
    weights: tuple[float, ...] = (0.5, 1.0, 2.0)
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.views, self.least_views) < 1 or self.folds < 2 or self.width % 8 or self.width < 8:
            raise BadConfig("steps and views are at least 1, folds at least 2, and width is a multiple of 8")
        if not self.weights or min(self.weights) < 0 or tuple(sorted(self.weights)) != self.weights:
            raise BadConfig("weights are 0 or more, ascending")
        if self.rate <= 0 or self.most_views < self.least_views:
            raise BadConfig("rate is above 0, and most_views at least least_views")
