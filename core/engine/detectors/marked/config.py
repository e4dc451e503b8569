"""What learning from marks can be set to."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.backbones.base import in_order
from core.engine.backbones.config import STRIDES
from core.engine.config import BadConfig, Config


@dataclass(frozen=True)
class MarkedConfig(Config):
    """base: the detector that is learnt on from; base_run: the folder of a fitted one, '' to fit it by its defaults.

    strides: of the maps whose features are joined, on the grid of stride `grid`. channels: at most so many of them,
    drawn. sigma: of the learnt map's blur, in pixels at 256 x 256. shrinkages, shares: what is tried for the ridge and
    for the learnt map's part. folds: parts of the marked images that are left out in turn. batch: images per step.
    """

    base: str = "blend"
    base_run: str = ""
    strides: tuple[int, ...] = (4, 8, 16, 32)
    grid: int = 8
    channels: int = 512
    sigma: float = 8.0
    shrinkages: tuple[float, ...] = (0.03, 0.3, 3.0)
    shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    folds: int = 10
    batch: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        if not in_order(self.strides):
            raise BadConfig(f"strides are some of {', '.join(map(str, STRIDES))}, in order; not {self.strides}")
        if self.grid not in self.strides:
            raise BadConfig(f"grid is one of strides, not {self.grid}")
        if not self.shrinkages or min(self.shrinkages) <= 0 or 0 not in self.shares or max(self.shares) > 1:
            raise BadConfig("shrinkages are above 0, and shares from 0, which must be among them, to 1")
        if min(self.channels, self.batch) < 1 or self.folds < 2 or self.sigma < 0:
            raise BadConfig("channels and batch are at least 1, folds at least 2, and sigma is 0 or more")
