"""Several quick detectors on pretrained features as one, each with an equal say.

What they see differs: PaDiM compares each place with the same place of normal images, the nearest patches with any
place, in two depths of the network, and the Mahalanobis distance the image as a whole and each place with all places.
Each is put on the scale of normal images that none was fitted on (mean 0, standard deviation 1). The heat map is the
mean of their maps, and says nothing of places that hardly any normal image shows: there is nothing to compare with. The
image's score is the mean of four readings: of the whole image's features, of its mean colour, the map's mean, and its
largest twentieth, both of all places. Weights are equal by design, not learnt: on images of a kind that nobody has seen
there is nothing to learn them from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.heatmap import cells_inside, counted, upsample, usually_inside
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig
from core.engine.detectors.map_detector import MapDetector, fit_together, predict_together
from core.engine.detectors.members import Scale, places_unseen
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.files import write_json
from core.engine.mean_colour import MeanColour
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of

ABOUT = "blend.json"
KINDS: dict[str, type[MapDetector]] = {
    "padim": PaDiM,
    "fine": Nearest,
    "coarse": Nearest,
    "pooled": Mahalanobis,
}
TOP = 0.05  # share of an image's cells
EVERYWHERE = "everywhere"  # among the extras: the map before anything was left out


@dataclass(frozen=True)
class BlendConfig(Config):
    """padim, fine, coarse, pooled: the members. maps: those whose maps make the heat map.

    unseen: share of the given normals that only sets their scales. stride: of the grid on which maps are added.
    colour: whether the distance of the image's mean colour is one of the score's readings. Where brightness alone tells
    most (chest X-rays), features trained on photographs look past it. seen: the map is 0 in places that the regions of
    interest of fewer than this share of the given images hold.
    """

    padim: PaDiMConfig = field(default_factory=lambda: PaDiMConfig(strides=(8, 16)))
    fine: NearestConfig = field(default_factory=lambda: NearestConfig(strides=(8, 16), patches=4000, pool=20_000))
    coarse: NearestConfig = field(default_factory=lambda: NearestConfig(strides=(16, 32), patches=4000, pool=20_000))
    pooled: MahalanobisConfig = field(default_factory=MahalanobisConfig)
    maps: tuple[str, ...] = tuple(KINDS)
    stride: int = 8
    unseen: float = 0.15
    colour: bool = True
    seen: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.unseen < 0.9 or self.stride < 1:
            raise BadConfig("unseen lies in (0, 0.9) and stride is at least 1")
        if not 0 <= self.seen < 1:
            raise BadConfig("seen lies in [0, 1)")
        if not self.maps or not set(self.maps) <= set(KINDS) or len(set(self.maps)) < len(self.maps):
            raise BadConfig(f"maps are some of {', '.join(KINDS)}, not {', '.join(self.maps)}")


@DETECTORS.register("blend", title="Quick detectors, blended")
class Blend(Detector):
    """extras: `pooled` and `colour` (N,), distances of the whole image; `pooled_roi` and `colour_roi`, of its region of
    interest, where that is given; `everywhere` (N, S/8, S/8), the map before anything was left out.
    """

    name = "blend"
    Config = BlendConfig

    def __init__(
        self,
        config: BlendConfig,
        members: dict[str, MapDetector],
        scales: dict[str, Scale],
        readings: dict[str, Scale],
        colours: dict[str, MeanColour],
        kept: np.ndarray | None = None,
        known: np.ndarray | None = None,
    ) -> None:
        """colours: of whole images, `colour`, and of regions of interest, `colour_roi`; none without config.colour.
        kept: places, among the images of the fit, of those that the members hold; None for blends that did not say.
        known: bool (S/8, S/8), places that normal images show; None for all.
        """
        self.config, self.members, self.scales, self.readings = config, members, scales, readings
        self.colours, self.kept, self.known = colours, kept, known
        self.size = members["pooled"].size

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: BlendConfig, context: FitContext = FitContext()) -> Self:
        """One pass of the encoder over images uint8 (N, S, S, 3). Raises ValueError under 16 images."""
        kept, left_out = places_unseen(len(images), config.unseen, config.seed, context.patients)
        seen, around = rows_of(images, kept), context.of(kept)
        unseen, unseen_roi = rows_of(images, left_out), context.of(left_out).roi
        wanted = [(kind, getattr(config, name)) for name, kind in KINDS.items()]
        fitted = fit_together(encoder, seen, wanted, around)
        regions = {"colour": None, "colour_roi": around.roi} if config.colour else {}
        colours = {name: MeanColour.fit(seen, roi) for name, roi in regions.items()}
        known = None
        if context.roi is not None:
            known = usually_inside(context.roi, -(-images.shape[1] // config.stride)) >= config.seen
        detector = cls(config, dict(zip(KINDS, fitted, strict=True)), {}, {}, colours, kept, known)
        parts = detector._parts(unseen, 32, unseen_roi)
        for name in config.maps:
            detector.scales[name] = Scale.of_values(cells_inside(parts[name].maps, unseen_roi))
        for kind, roi in {"": None, "_roi": unseen_roi}.items():
            prediction = detector._joined(parts, unseen, unseen_roi)
            for name, values in detector._read(prediction, roi).items():
                detector.readings[name + kind] = Scale.of_values(values)
        return detector

    def _parts(self, images: np.ndarray, batch: int, roi: np.ndarray | None) -> dict[str, Prediction]:
        found = predict_together(list(self.members.values()), images, batch=batch, roi=roi)
        return dict(zip(self.members, found, strict=True))

    def _joined(self, parts: dict[str, Prediction], images: np.ndarray, roi: np.ndarray | None) -> Prediction:
        side = -(-images.shape[1] // self.config.stride)
        maps = [s.maps(upsample(parts[n].maps, side)) for n, s in self.scales.items()]
        extras = dict(parts["pooled"].extras)
        for name, colour in self.colours.items():
            inside = roi if name.endswith("_roi") else None
            if name == "colour" or inside is not None:
                extras[name] = colour.distances(images, inside)
        whole = np.asarray(np.mean(maps, 0, dtype=np.float32))
        return Prediction(self.where_known(whole), {**extras, EVERYWHERE: whole})

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/8, S/8), in standard deviations of normal images, 0 where nothing is known; the same with
        or without `roi`.
        """
        return self._joined(self._parts(images, batch, roi), images, roi)

    def where_known(self, maps: np.ndarray, elsewhere: np.ndarray | None = None) -> np.ndarray:
        """Maps (N, h, w), with 0 or the maps `elsewhere`, on a grid of any side, where normal images show nothing."""
        if self.known is None:
            return maps
        side = maps.shape[1]
        other = 0.0 if elsewhere is None else upsample(elsewhere, side)
        return np.where(upsample(self.known[None], side)[0] >= 0.5, maps, other).astype(np.float32)

    def _read(self, prediction: Prediction, roi: np.ndarray | None) -> dict[str, np.ndarray]:
        """Readings of each image (N,): `pooled`, the map's `mean` and `top`, and `colour`."""
        whole = self.where_known(prediction.maps, prediction.extras[EVERYWHERE])
        flat = whole.reshape(len(prediction), -1)
        inside = counted(whole, roi).reshape(flat.shape)
        count = inside.sum(1)
        ordered = -np.sort(-np.where(inside, flat, -np.inf), 1)
        top = np.maximum(1, np.round(TOP * count)).astype(int)
        away = prediction.extras.get("colour_roi") if roi is not None else None
        colour = {"colour": prediction.extras["colour"] if away is None else away} if self.colours else {}
        return colour | {
            "pooled": self.members["pooled"].image_score(prediction, roi),
            "mean": np.where(inside, flat, 0).sum(1) / count,
            "top": np.array([row[:n].mean() for row, n in zip(ordered, top, strict=True)]),
        }

    def standardised(self, prediction: Prediction, roi: np.ndarray | None = None) -> list[np.ndarray]:
        """The readings (N,) of each image, in standard deviations of normal images."""
        kind = "" if roi is None else "_roi"
        return [self.readings[name + kind].scores(values) for name, values in self._read(prediction, roi).items()]

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32: the mean of the readings."""
        return np.mean(self.standardised(prediction, roi), 0).astype(np.float32)

    def save(self, folder: Path) -> None:
        """`folder`: a folder for each member and, last, blend.json."""
        folder = Path(folder)
        for name, member in self.members.items():
            member.save(folder / name)
        about: dict[str, Any] = {"config": self.config.to_dict()}
        about["kept"] = None if self.kept is None else self.kept.tolist()
        about["known"] = None if self.known is None else self.known.astype(int).tolist()
        about["colours"] = {name: colour.to_dict() for name, colour in self.colours.items()}
        about |= {part: {n: s.to_dict() for n, s in getattr(self, part).items()} for part in ("scales", "readings")}
        write_json(folder / ABOUT, about)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        about = json.loads((folder / ABOUT).read_text())
        members = {name: kind.load(folder / name, device) for name, kind in KINDS.items()}
        scales, readings = ({n: Scale.from_dict(s) for n, s in about[part].items()} for part in ("scales", "readings"))
        colours = {name: MeanColour.from_dict(one) for name, one in about.get("colours", {}).items()}
        kept = None if about.get("kept") is None else np.array(about["kept"])
        known = None if about.get("known") is None else np.array(about["known"], bool)
        return cls(BlendConfig.from_dict(about["config"]), members, scales, readings, colours, kept, known)
