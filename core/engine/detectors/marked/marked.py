"""Learnt from what readers marked: a base detector, and a discriminant of the cells inside accepted masks (few-shot).

The base detector stays as it was fitted. Its heat map is mixed with the map of a linear discriminant on the encoder's
features; how much either counts is chosen on marked images that the discriminant is not learnt from, and may be
nothing. The mixture has the mean and deviation of the base's map on normal images, so that the image's score is taken
from it as the base takes its own. Without marked images this is the base detector.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder, load_encoder, save_encoder
from core.engine.backbones.inference import inference_copy
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.map_detector import maps_of
from core.engine.detectors.marked.cells import joined
from core.engine.detectors.marked.choice import LEAST, Rule, mixed
from core.engine.detectors.marked.config import MarkedConfig
from core.engine.detectors.marked.discriminant import Discriminant
from core.engine.detectors.marked.learning import Learnt, Scales, blurred, learn, on_one_grid
from core.engine.files import write_json, write_tensors
from core.engine.registry import DETECTORS

WEIGHTS, ABOUT = "marked.safetensors", "marked.json"
BASE_ALONE, UNSCALED = Rule(), Scales()


@DETECTORS.register("marked", title="Learnt from marks", listed=False)
class Marked(Detector):
    """extras: the base's. remarks: sentences on how it was learnt, for the run's log."""

    name = "marked"
    Config = MarkedConfig

    def __init__(
        self,
        config: MarkedConfig,
        base: Detector,
        encoder: Encoder,
        rule: Rule = BASE_ALONE,
        learnt: Learnt | None = None,
        scales: Scales = UNSCALED,
        remarks: tuple[str, ...] = (),
    ) -> None:
        """learnt: None where `rule.share` is 0, and nothing but the base is used."""
        self.config, self.base, self.encoder, self.rule, self.learnt = config, base, encoder, rule, learnt
        self.scales, self.remarks, self.size = scales, remarks, base.size

    @functools.cached_property
    def reader(self) -> Encoder:
        """The encoder as it is read in scoring."""
        return inference_copy(self.encoder)

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: MarkedConfig, context: FitContext = FitContext()
    ) -> Self:
        """The base, fitted on normal images uint8 (N, S, S, 3) or loaded, and what `context.marks` teach beside it."""
        kind = DETECTORS.get(config.base)
        if config.base_run:
            base = kind.load(Path(config.base_run), context.device)
        else:
            base = kind.fit(encoder, images, kind.Config(), context.replace(marks=None))
        base.demand_size(images)
        marks = context.marks
        count = 0 if marks is None else len(marks.images if marks.patients is None else np.unique(marks.patients))
        if marks is None or count < LEAST:
            return cls(config, base, encoder, remarks=(_too_few(count),))
        found = learn(base, encoder.to(torch.device(context.device)).eval(), images, marks, config, context)
        return cls(config, base, encoder, *found, remarks=(_said(found[0]),))

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, h, w) on the finer grid of the base's and the learnt map's; the base's where that is all."""
        found = self.base.predict(images, batch=batch, roi=roi)
        if self.learnt is None or not len(images):
            return found
        learnt = self._learnt_maps(self.learnt, images, batch)
        return self.base.changed(found, self.joined(found.maps, learnt))

    def joined(self, base: np.ndarray, learnt: np.ndarray) -> np.ndarray:
        """The base's maps (N, h, w) and standardised learnt ones (N, h', w') -> the mixture's, on the finer grid."""
        scales = self.scales
        standard, learnt = on_one_grid((base - scales.mean) / scales.deviation, learnt)
        mixture = mixed(standard, learnt, self.rule.share) / scales.mixture
        return np.asarray(scales.mean + scales.deviation * mixture, np.float32)

    def _learnt_maps(self, learnt: Learnt, images: np.ndarray, batch: int) -> np.ndarray:
        """Standardised float32 (N, h, w)."""
        parts = []
        for start in range(0, len(images), batch):
            maps = maps_of(self.reader, np.asarray(images[start : start + batch]), set(self.config.strides))
            heat = learnt.of(joined(maps, self.config.strides, self.config.grid, learnt.channels))
            parts.append((blurred(heat, self.config.sigma).cpu().numpy() - learnt.mean) / learnt.deviation)
        return np.concatenate(parts)

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """As the base scores an image, from the mixture in the place of its own map."""
        return self.base.image_score(prediction, roi)

    def save(self, folder: Path) -> None:
        """`folder`: base/, encoder/ and marked.safetensors where it has learnt, and, last, marked.json."""
        folder = Path(folder)
        self.base.save(folder / "base")
        save_encoder(self.encoder, folder / "encoder")
        about: dict[str, Any] = {"config": self.config.to_dict(), "rule": self.rule.to_dict()}
        about |= {"scales": vars(self.scales), "remarks": list(self.remarks), "learnt": self.learnt is not None}
        if self.learnt is not None:
            tensors = {"weights": self.learnt.of.weights, "middle": self.learnt.of.middle}
            if self.learnt.channels is not None:
                tensors["channels"] = self.learnt.channels
            write_tensors(folder / WEIGHTS, tensors)
            about |= {"mean": self.learnt.mean, "deviation": self.learnt.deviation}
        write_json(folder / ABOUT, about)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        about = json.loads((folder / ABOUT).read_text())
        config, learnt = MarkedConfig.from_dict(about["config"]), None
        if about["learnt"]:
            tensors = load_file(folder / WEIGHTS, device=str(device))
            of = Discriminant(tensors["weights"], tensors["middle"])
            learnt = Learnt(of, tensors.get("channels"), about["mean"], about["deviation"])
        base = DETECTORS.get(config.base).load(folder / "base", device)
        rule, scales = Rule.from_dict(about["rule"]), Scales(**about["scales"])
        encoder = load_encoder(folder / "encoder", device)
        return cls(config, base, encoder, rule, learnt, scales, tuple(about["remarks"]))


def _too_few(count: int) -> str:
    return (
        f"Nothing was learnt from {count} marked: it takes {LEAST} images, of {LEAST} patients where these are known."
    )


def _said(rule: Rule) -> str:
    if not rule.share:
        return f"Learning from {rule.images} marked images did not help on those left out: the base is used as it was."
    return (
        f"On marked images left out: Dice {rule.dice:.3f} instead of {rule.base_dice:.3f}, PRO {rule.pro:.3f} instead "
        f"of {rule.base_pro:.3f}; the learnt map counts {rule.share:.2f}, shrinkage {rule.shrinkage:g}."
    )
