"""The quick detectors and the lesion head together: what looks unlike any normal image, and what looks pasted.

The head, on features that stay as they are, knows how a lesion lies in its surroundings and little of what is normal;
the quick detectors know the normal alone. They err in different places. All are put on the scale of normal images that
none of them has seen: the head's map is added to the blend's, and its score is one more reading with an equal say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.blend import EVERYWHERE, Blend, BlendConfig
from core.engine.detectors.heatmap import blur, cells_inside, upsample
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.members import Scale
from core.engine.files import write_json
from core.engine.registry import DETECTORS
from core.engine.rows import resized, rows_of

ABOUT = "blend-head.json"
OF_HEAD = "head."  # before the names of its extras


def head_as(preset: str) -> LesionHeadConfig:
    """The head of a preset as it is used here: on features that stay as they are and with distances, but for `joint`;
    half as long; and lesions of every size and origin beside its own, for nobody knows what an image will show.
    """
    own = LESION_PRESETS[preset]
    changes = {"families": (*own.families, "medmix:varied"), "distances": True, "steps": own.steps // 2}
    return own.replace(**changes, mode=own.mode if own.mode == "joint" else "frozen")


@dataclass(frozen=True)
class BlendHeadConfig(Config):
    """blend, head: settings of the two; the seed of both is `seed`.

    side: of the images that the head sees, in pixels, where they are larger. weight: of the head's map beside the
    blend's, which counts 1. sigma: of the blur of the head's map, in pixels at 256 x 256: its finest cells are finer
    than what it knows.
    """

    blend: BlendConfig = field(default_factory=BlendConfig)
    head: LesionHeadConfig = field(default_factory=lambda: head_as("quick"))
    side: int = 128
    weight: float = 1.0
    sigma: float = 8.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.side < 32 or min(self.weight, self.sigma) < 0:
            raise BadConfig("side is at least 32, and weight and sigma are 0 or more")


@DETECTORS.register("blend-head", title="Quick detectors and lesion head", section="Sec. Conclusion")
class BlendHead(Detector):
    """extras: the blend's, and the head's by `head.NAME`, its maps among them."""

    name = "blend-head"
    Config = BlendHeadConfig
    presets = {kind: BlendHeadConfig(head=head_as(kind)) for kind in LESION_PRESETS}

    def __init__(self, config: BlendHeadConfig, blend: Blend, head: LesionHead, scales: dict[str, Scale]) -> None:
        """scales, by `blend`, `head` and `head_roi`: of the two maps and, of the head, the scores without and with a
        region of interest.
        """
        self.config, self.blend, self.head, self.scales = config, blend, head, scales
        self.size = blend.size

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: BlendHeadConfig, context: FitContext = FitContext()
    ) -> Self:
        """images uint8 (N, S, S, 3), normal. The encoder given is not changed. ValueError under 16 images."""
        blend = Blend.fit(encoder, images, config.blend.replace(seed=config.seed), context.replace(report=None))
        assert blend.kept is not None  # it says so, fitted now
        unseen = np.setdiff1d(np.arange(len(images)), blend.kept)
        around = context.of(blend.kept)
        if around.roi is not None:
            around = around.replace(roi=resized(around.roi, config.side))
        if around.folder is not None:
            # Where the head is saved: saving it removes the state of its training.
            around = around.replace(folder=around.folder / "head")
        seen = resized(rows_of(images, blend.kept), config.side)
        head = LesionHead.fit(encoder, seen, config.head.replace(seed=config.seed), around)
        detector = cls(config, blend, head, {})
        detector._take_scales(rows_of(images, unseen), context.of(unseen).roi)
        return detector

    def _take_scales(self, images: np.ndarray, roi: np.ndarray | None) -> None:
        """From normal images that neither of the two has seen."""
        blend, head = self._parts(images, 32, roi)
        self.scales["blend"] = Scale.of_values(cells_inside(blend.extras[EVERYWHERE], roi))
        cells = cells_inside(self._on_grid(head, blend.maps.shape[1]), roi)
        for kind, inside in {"head": None, "head_roi": roi}.items():
            self.scales[kind] = Scale.of_values(self.head.image_score(head, inside), cells)

    def _parts(self, images: np.ndarray, batch: int, roi: np.ndarray | None) -> tuple[Prediction, Prediction]:
        seen = resized(images, self.config.side)
        return self.blend.predict(images, batch=batch, roi=roi), self.head.predict(seen, batch=batch)

    def _on_grid(self, head: Prediction, side: int) -> np.ndarray:
        """The head's map, blurred, on a grid of that side, as logits still."""
        smooth = blur(torch.from_numpy(head.maps), self.config.sigma * head.maps.shape[1] / 256)
        return upsample(smooth.numpy(), side)

    def _added(self, head: Prediction, side: int) -> np.ndarray:
        """What the head adds to the blend's standardised map."""
        return np.asarray(self.config.weight * self.scales["head"].maps(self._on_grid(head, side)), np.float32)

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/8, S/8), in standard deviations of normal images, 0 where nothing is known; the same with
        or without `roi`.
        """
        blend, head = self._parts(images, batch, roi)
        maps = self.scales["blend"].maps(blend.extras[EVERYWHERE]) + self._added(head, blend.maps.shape[1])
        extras = {OF_HEAD + name: values for name, values in {"maps": head.maps, **head.extras}.items()}
        return Prediction(self.blend.where_known(maps), {**blend.extras, **extras})

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32: the mean of the blend's readings, taken from what is left without the head, and its score."""
        extras = {n.removeprefix(OF_HEAD): v for n, v in prediction.extras.items() if n.startswith(OF_HEAD)}
        head = Prediction(extras.pop("maps"), extras)
        scale = self.scales["blend"]
        left = (prediction.maps - self._added(head, prediction.maps.shape[1])) * scale.map_sd + scale.map_mean
        readings = self.blend.standardised(Prediction(left, prediction.extras), roi)
        own = self.scales["head" if roi is None else "head_roi"].scores(self.head.image_score(head, roi))
        return np.mean([*readings, own], 0).astype(np.float32)

    def save(self, folder: Path) -> None:
        """`folder`: one of the blend, one of the head and, last, blend-head.json."""
        folder = Path(folder)
        self.blend.save(folder / "blend")
        self.head.save(folder / "head")
        scales = {name: scale.to_dict() for name, scale in self.scales.items()}
        write_json(folder / ABOUT, {"config": self.config.to_dict(), "scales": scales})

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        about = json.loads((folder / ABOUT).read_text())
        blend, head = Blend.load(folder / "blend", device), LesionHead.load(folder / "head", device)
        if about["config"].pop("seen", None) is not None and about["known"] is not None:
            blend.known = np.array(about["known"], bool)  # it was kept here before the blend knew of it
        scales = {name: Scale.from_dict(values) for name, values in about["scales"].items()}
        return cls(BlendHeadConfig.from_dict(about["config"]), blend, head, scales)
