"""Several fitted detectors on one scale: each standardised by normal images that none of them has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.heatmap import cells_inside, upsample
from core.engine.rows import rows_of


@dataclass(frozen=True)
class Scale(Config):
    """Mean and standard deviation of a member's scores and of its maps' cells, over unseen normal images."""

    score_mean: float
    score_sd: float
    map_mean: float
    map_sd: float

    @classmethod
    def of(cls, member: Detector, images: np.ndarray, roi: np.ndarray | None) -> Self:
        prediction = member.predict(images)
        scores = member.image_score(prediction, roi)
        cells = cells_inside(prediction.maps, roi)
        return cls.of_values(scores, cells)

    @classmethod
    def of_values(cls, scores: np.ndarray, cells: np.ndarray | None = None) -> Self:
        """Of scores and of a map's cells; of either alone, whichever is asked of it later."""
        least = 1e-6  # what never varies says nothing, and must not be divided by
        of = [(float(np.mean(v)), max(least, float(np.std(v)))) for v in (scores, scores if cells is None else cells)]
        return cls(*of[0], *of[1])

    def scores(self, values: np.ndarray) -> np.ndarray:
        return (values - self.score_mean) / self.score_sd

    def maps(self, values: np.ndarray) -> np.ndarray:
        return (values - self.map_mean) / self.map_sd


class Members:
    """Fitted detectors by name, and the scale of each."""

    def __init__(self, detectors: Mapping[str, Detector], scales: dict[str, Scale]) -> None:
        self.detectors, self.scales = detectors, scales

    @classmethod
    def of(cls, detectors: Mapping[str, Detector], images: np.ndarray, roi: np.ndarray | None) -> Self:
        """images uint8 (N, S, S, 3), normal, unseen by all; roi (N, S, S) or None."""
        return cls(detectors, {name: Scale.of(member, images, roi) for name, member in detectors.items()})

    def predict(self, images: np.ndarray, batch: int = 32) -> dict[str, np.ndarray]:
        """`NAME.maps` and `NAME.KEY` of every extra, as each member gives them: what `maps` and `scores` take."""
        out = {}
        for name, member in self.detectors.items():
            part = member.predict(images, batch=batch)
            out[f"{name}.maps"] = part.maps
            out |= {f"{name}.{key}": value for key, value in part.extras.items()}
        return out

    def maps(self, parts: dict[str, np.ndarray], side: int) -> dict[str, np.ndarray]:
        """Standardised maps (N, side, side) of each."""
        return {name: scale.maps(upsample(parts[f"{name}.maps"], side)) for name, scale in self.scales.items()}

    def scores(self, parts: dict[str, np.ndarray], roi: np.ndarray | None) -> dict[str, np.ndarray]:
        """Standardised scores (N,) of each."""
        out = {}
        for name, scale in self.scales.items():
            own = {k.removeprefix(f"{name}."): v for k, v in parts.items() if k.startswith(f"{name}.")}
            prediction = Prediction(own.pop("maps"), own)
            out[name] = scale.scores(self.detectors[name].image_score(prediction, roi))
        return out

    def save(self, folder: Path) -> dict[str, Any]:
        """Each member in a folder of its name; returns the scales as JSON takes them."""
        for name, member in self.detectors.items():
            member.save(Path(folder) / name)
        return {name: scale.to_dict() for name, scale in self.scales.items()}

    @classmethod
    def load(cls, folder: Path, scales: dict[str, Any], loaders: Mapping[str, Callable[[Path], Detector]]) -> Self:
        """Back from `save`: its scales, and how each member is loaded from its folder."""
        detectors = {name: load(Path(folder) / name) for name, load in loaders.items()}
        return cls(detectors, {name: Scale.from_dict(values) for name, values in scales.items()})


def part_unseen(
    images: np.ndarray, context: FitContext, share: float, seed: int
) -> tuple[tuple[np.ndarray, FitContext], tuple[np.ndarray, np.ndarray | None]]:
    """What members are fitted on, images uint8 (N, S, S, 3) with their context; and at least 4 images that they never
    see, with their region of interest, if there is one. ValueError under 16 images.
    """
    seen, unseen = places_unseen(len(images), share, seed, context.patients)
    return (rows_of(images, seen), context.of(seen)), (rows_of(images, unseen), context.of(unseen).roi)


def places_unseen(
    count: int, share: float, seed: int, patients: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Places, among `count` images, of those that members are fitted on and of those that they never see.

    patients (count,): whose image each is. Raises ValueError under 16 images.
    """
    if count < 16:
        raise ValueError(f"several detectors together take at least 16 normal images; there are {count}")
    return leave_out(count, max(4, round(share * count)), seed, patients)


def leave_out(count: int, least: int, seed: int, patients: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(places kept, places left out), ascending, of `count` images: `least` are left out, or of whole patients (count,)
    as few as have that many, unless that would be more than half of all.
    """
    draw = np.random.default_rng(seed)
    order = draw.permutation(count)
    out = np.sort(order[:least])
    if patients is not None and least:
        _, whose, sizes = np.unique(patients, return_inverse=True, return_counts=True)
        drawn = draw.permutation(len(sizes))
        whole = drawn[: int(np.searchsorted(np.cumsum(sizes[drawn]), least)) + 1]
        if 2 * sizes[whole].sum() <= count:
            out = np.flatnonzero(np.isin(whose, whole))
    return np.setdiff1d(order, out), out
