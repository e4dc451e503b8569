"""Several detectors combined: a weighted sum of their maps, and a weighted sum of readings (partial scores of images).

Different detectors make different errors. Each map and each reading is standardised to mean 0 and standard deviation 1
on normal images that no member was fitted on, then weighted and added. Weights are equal, given, or learnt. The map is
0 at positions that hardly any normal image shows, because nothing is known about them.

    config = EnsembleConfig(members, maps=equal(members), readings={"mean": 0.5, "colour": 0.5})
    ensemble = Ensemble.fit(encoder, normals, config)

The named configurations (named.py) are `blend` (for a first look), `blend-head` (the default on a trained encoder),
`combined` and `ensemble`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import blur, cells_inside, counting, mean_inside, roi_at, usually_inside
from core.engine.calibration.scale import LEAST, Scale, split_unseen
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.ensemble.config import EnsembleConfig, Member, aligned_weights, suited
from core.engine.detectors.ensemble.named import (
    BlendConfig,
    BlendHeadConfig,
    CombinedConfig,
    HeadsConfig,
    Named,
    with_heads,
)
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.lesion_head.synth import SyntheticValidation, judge
from core.engine.detectors.map_detector import MapDetector, fit_together, predict_together
from core.engine.detectors.padim import PaDiM
from core.engine.mean_colour import MeanColour
from core.engine.progress import part_of
from core.engine.registry import DETECTORS
from core.engine.rows import resized, rows_of

TOP = 0.05  # fraction of the map that the reading `top` averages
EVERYWHERE = "everywhere"  # key of the summed map before masking in the extras
ROI = "_roi"  # suffix of the scales of readings in the region of interest
CANDIDATES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # candidates for a learnt weight
CLEARLY = 0.005  # difference in AUROC below which values count as equal
Split = tuple[np.ndarray, np.ndarray]  # indices of the images that members are fitted on, and of the held-out images


class Ensemble(Detector):
    """Detector that adds the maps and the readings (partial scores) of its members, each with a weight.

    Predictions have the extras `everywhere`, `(N, h, w)`, the map before masking; `colour`, `(N,)`, and, with a region
    of interest, `colour_roi`, `(N,)`, distances of the mean colour; and, for each member with a reading, its map and
    extras as `MEMBER.NAME`. If two or more members, none of them an ensemble, have a reading, their standardised scores
    are extras by member name, `(N,)`, or as `members`, `(N, M)`, if all are of the same kind.
    """

    name = "ensemble"
    Config: ClassVar[type[Config]] = EnsembleConfig
    Stored = EnsembleConfig

    def __init__(
        self,
        config: EnsembleConfig,
        members: Mapping[str, Detector],
        fitted_rows: np.ndarray | None = None,
        known: np.ndarray | None = None,
        colours: Mapping[str, MeanColour] | None = None,
    ) -> None:
        """Creates an ensemble of fitted members.

        Args:
            config: Configuration of the ensemble.
            members: Fitted detectors by name.
            fitted_rows: Indices of the images on which the members were fitted, or None if unknown.
            known: Positions that enough normal images show, `bool (h, w)`. Defaults to all positions.
            colours: Mean colours of normal images (`colour`) and of their regions of interest (`colour_roi`).
        """
        super().__init__()
        self.config, self.members = config, cast(dict[str, Detector], nn.ModuleDict(members))
        self.kept, self.known, self.colours = fitted_rows, known, dict(colours or {})
        self.size = next((member.size for member in self.members.values() if member.size), 0)
        self.map_weights, self.reading_weights = dict(config.maps), dict(config.readings)
        self.map_scales: dict[str, Scale] = {}
        self.reading_scales: dict[str, Scale] = {}

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: EnsembleConfig | Named, context: FitContext = FitContext()
    ) -> Self:
        """Fits all members and scales on normal images, `uint8 (N, S, S, 3)`, without changing the encoder.

        With fewer than 16 images, none are held out: quick members are fitted on all images, scales are estimated from
        leave-one-out predictions, and the class head is not used. Raises ValueError for fewer than 3 images, or for
        fewer than 16 images if a member has to be trained or a weight learnt.
        """
        head = encoder.class_head if len(images) >= LEAST else None
        complete = suited(config.ensemble() if isinstance(config, Named) else config, head)
        if 3 <= len(images) < LEAST and all(is_quick(m) for m in complete.members.values()) and not complete.learn:
            return cls._fit_few(encoder, images, complete, context)
        split = split_unseen(len(images), complete.unseen, complete.seed, context.patients)
        return cls._fit(encoder, images, complete, context, split)

    @classmethod
    def _fit(
        cls, encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext, split: Split
    ) -> Self:
        ensemble = cls._unscaled(encoder, images, config, context, split)
        unseen, region = rows_of(images, split[1]), context.of(split[1]).roi
        ensemble._take_scales(*ensemble._read(unseen, 32, region), ensemble._side(images), region)
        if config.learn:
            ensemble._learn_weights(unseen, region)
        return ensemble._with_class_head_if_it_helps(unseen, region)

    @classmethod
    def _fit_few(cls, encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext) -> Self:
        indices = np.arange(len(images))
        with remembering():  # so that the encoder reads each image only once for all fits
            ensemble = cls._unscaled(encoder, images, config, context, (indices, indices[:0]))
            left_out = []
            for i in indices:
                split = np.delete(indices, i), indices[i : i + 1]
                partial = cls._unscaled(encoder, images, config, context.replace(report=None), split)
                left_out.append(partial._read(rows_of(images, split[1]), 1, context.of(split[1]).roi))
        predictions, colours = zip(*left_out, strict=True)
        ensemble._take_scales(
            {name: Prediction.joined([of_one[name] for of_one in predictions]) for name in config.members},
            {name: np.concatenate([colour[name] for colour in colours]) for name in colours[0]},
            ensemble._side(images),
            context.roi,
        )
        return ensemble

    @classmethod
    def _unscaled(
        cls, encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext, split: Split
    ) -> Self:
        fitted_rows, comparable, colours = split[0], None, {}
        if config.seen and context.roi is not None:
            comparable = usually_inside(context.roi, -(-images.shape[1] // config.stride)) >= config.seen
        if "colour" in config.readings:
            fitted, roi = rows_of(images, fitted_rows), context.of(fitted_rows).roi
            colours = {"colour": MeanColour.fit(fitted), "colour" + ROI: MeanColour.fit(fitted, roi)}
        members = _fit_members(encoder, images, config, context, split)
        ensemble = cls(config, members, fitted_rows, comparable, colours)
        shares = {
            name: member.alignment(len(fitted_rows), comparable)
            for name, member in members.items()
            if isinstance(member, PaDiM | Ensemble) and name in config.aligned
        }
        ensemble.map_weights = aligned_weights(config.maps, config.aligned, shares)
        ensemble.reading_weights = aligned_weights(config.readings, config.aligned, shares)
        return ensemble

    def alignment(self, count: int, known: np.ndarray | None = None) -> float:
        """Returns the largest `PaDiM.alignment` of any PaDiM among the members, or 0 if there is none."""
        measured = [m.alignment(count, known) for m in self.members.values() if isinstance(m, PaDiM | Ensemble)]
        return max(measured, default=0.0)

    def _take_scales(
        self, predictions: dict[str, Prediction], colours: dict[str, np.ndarray], side: int, roi: np.ndarray | None
    ) -> None:
        """Estimates the scales from members' predictions of normal images that the members were not fitted on."""
        for name in self.map_weights:
            maps = _whole(predictions[name].values())
            # The scale of a blurred map is estimated after the blur, on the common grid.
            maps = self._on_grid(name, maps, side) if self.config.members[name].blur else maps
            self.map_scales[name] = Scale.of(cells_inside(maps.numpy(), roi))
        values = self._joined(predictions, colours, side)
        for kind, region in {"": roi if not self.config.by_region else None, ROI: roi}.items():
            for name, reading in self._readings(values, _tensor(region)).items():
                # The score of an ensemble is already standardised.
                scaled = name in self.members and isinstance(self.members[name], Ensemble)
                self.reading_scales[name + kind] = Scale() if scaled else Scale.of(reading.numpy())

    def _with_class_head_if_it_helps(self, images: np.ndarray, roi: np.ndarray | None) -> Self:
        """Returns the ensemble without the class head, unless the head improves the AUROC for unfamiliar lesions.

        These lesions are pasted into `images`, normal images that no member was fitted on.
        """
        config = suited(self.config, None)
        if config is self.config:
            return self
        plain = type(self)(config, {n: self.members[n] for n in config.members}, self.kept, self.known, self.colours)
        plain.map_weights, plain.map_scales = self.map_weights, self.map_scales
        plain.reading_scales = {
            n: scale for n, scale in self.reading_scales.items() if n.removesuffix(ROI) in config.readings
        }
        with remembering():
            aurocs = [np.mean([f["auroc"] for f in judge(d, images, roi).values()]) for d in (plain, self)]
        return self if aurocs[1] - aurocs[0] >= CLEARLY else plain

    def _learn_weights(self, images: np.ndarray, roi: np.ndarray | None) -> None:
        """Learns weights on normals that no member was fitted on, with lesions of the head's held-out families."""
        first, second = self.members
        [head] = (m.settings for m in self.config.members.values() if m.detector == "lesion-head")
        assert isinstance(head, LesionHeadConfig)
        data = SyntheticValidation.draw(images, roi, head)
        labels = data.labels[data.use]
        if len(set(labels)) < 2:
            return
        side, (predictions, colours) = self._side(images), self._read(data.images, 32, None)
        if "score" in self.config.learn:
            read = self.standardised(self._joined(predictions, colours, side), _tensor(data.roi))
            ours, theirs = (read[name].numpy()[data.use] for name in (first, second))
            self.reading_weights[second] = choose_weight(ours, theirs, labels)
        if "map" in self.config.learn:
            maps = {n: self._standard_map(n, p.values(), side).numpy() for n, p in predictions.items()}
            shape = maps[first].shape[1:]
            lesion = roi_at(data.masks.astype(np.uint8), shape)
            inside = np.ones_like(lesion) if data.roi is None else roi_at(data.roi, shape)
            self.map_weights[second] = choose_weight(maps[first][inside], maps[second][inside], lesion[inside])

    def _side(self, images: np.ndarray) -> int:
        return -(-images.shape[1] // self.config.stride)

    def _parts(self, images: np.ndarray, batch: int, roi: np.ndarray | None) -> dict[str, Prediction]:
        """Predicts images, `uint8 (N, S, S, 3)`, with each member. Quick members share one pass of the encoder."""
        quick = [name for name, member in self.config.members.items() if is_quick(member)]
        quick_members: list[Any] = [self.members[name] for name in quick]
        results = dict(
            zip(quick, predict_together(quick_members, images, batch=batch, roi=roi) if quick else [], strict=True)
        )
        for name, member in self.config.members.items():
            if name not in results:
                member_images, region = (
                    rows if rows is None or not member.side else resized(rows, member.side) for rows in (images, roi)
                )
                assert member_images is not None
                results[name] = self.members[name].predict(member_images, batch=batch, roi=region)
        return {name: results[name] for name in self.config.members}

    def _read(
        self, images: np.ndarray, batch: int, roi: np.ndarray | None
    ) -> tuple[dict[str, Prediction], dict[str, np.ndarray]]:
        return self._parts(images, batch, roi), self._colours(images, roi)

    def _on_grid(self, name: str, maps: Tensor, side: int) -> Tensor:
        """Blurs a member's maps, `(N, h, w)`, by its option `blur` and resizes them to the common grid."""
        return _resized(blur(maps, self.config.members[name].blur * maps.shape[1] / 256), side)

    def _standard_map(self, name: str, values: dict[str, Tensor], side: int) -> Tensor:
        return self.map_scales[name](self._on_grid(name, _whole(values), side))

    def _colours(self, images: np.ndarray, roi: np.ndarray | None) -> dict[str, np.ndarray]:
        """Computes distances from normal mean colours, `(N,)`, of images and, if given, of regions of interest."""
        return {
            name: colour.distances(images, roi if name.endswith(ROI) else None)
            for name, colour in self.colours.items()
            if roi is not None or not name.endswith(ROI)
        }

    def _joined(
        self, predictions: dict[str, Prediction], colours: dict[str, np.ndarray], side: int
    ) -> dict[str, Tensor]:
        members = {name: prediction.values() for name, prediction in predictions.items()}
        return self.joined(members, {name: torch.from_numpy(values) for name, values in colours.items()}, side)

    def joined(
        self, members: Mapping[str, dict[str, Tensor]], colours: dict[str, Tensor], side: int
    ) -> dict[str, Tensor]:
        """Combines the members' maps and extras into those of the ensemble. This method is part of exported graphs.

        Args:
            members: Maps and extras of each member by name.
            colours: Distances from the mean colours of normal images, `(N,)`, by name.
            side: Side length of the grid on which maps are added, in cells.
        """
        summed = torch.zeros(())
        for name, weight in self.map_weights.items():
            summed = summed + weight * self._standard_map(name, members[name], side)
        values = {"maps": self._where_known(summed), EVERYWHERE: summed, **colours}
        for name in (n for n in members if n in self.reading_weights):
            values |= {f"{name}.{key}": value for key, value in members[name].items()}
        return values

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps, `float32 (N, h, w)`, weighted sums of standardised maps on the grid of the option `stride`.

        Maps are 0 at positions that too few normal images show. They do not depend on `roi`.
        """
        values = self._joined(*self._read(images, batch, roi), self._side(images))
        named = [name for name in self.reading_weights if name in self.members]
        if len(named) > 1 and not any(isinstance(self.members[name], Ensemble) for name in named):
            scores = {name: self.reading_scales[name](self._reading(name, values, None)) for name in named}
            kinds = {self.config.members[name].detector for name in named}
            values |= {"members": torch.stack(list(scores.values()), 1)} if len(kinds) == 1 else scores
        return Prediction.of(values)

    def _where_known(self, maps: Tensor, elsewhere: Tensor | None = None) -> Tensor:
        """Sets maps to 0, or to the maps `elsewhere` on any grid, at positions that normal images do not show."""
        if self.known is None:
            return maps
        side = maps.shape[1]
        known = _resized(torch.from_numpy(self.known[None].astype(np.float32)), side)[0] >= 0.5
        return torch.where(known, maps, torch.zeros(()) if elsewhere is None else _resized(elsewhere, side))

    def part(self, values: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Extracts the maps and extras of the member `name` from the ensemble's `values`. It must have a reading."""
        return {k.removeprefix(f"{name}."): v for k, v in values.items() if k.startswith(f"{name}.")}

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns a copy of the prediction with new maps, `(N, h, w)`, on a grid of any size.

        The readings `mean` and `top` follow the new maps at positions that enough normal images show. Maps of members
        that are ensembles change by the same amount, in units of their own maps.
        """
        return Prediction.of(self._changed(prediction.values(), torch.from_numpy(maps)))

    def _changed(self, values: dict[str, Tensor], maps: Tensor) -> dict[str, Tensor]:
        side = maps.shape[1]
        change = self._where_known(maps - _resized(values["maps"], side))
        changed = values | {"maps": maps, EVERYWHERE: self._where_known(maps, values[EVERYWHERE])}
        for name, member in self.members.items():
            if isinstance(member, Ensemble) and self.map_weights.get(name) and name in self.reading_weights:
                inner = self.part(values, name)
                factor = self.map_scales[name].sd / self.map_weights[name]
                inner = member._changed(inner, _resized(inner["maps"], side) + change * factor)
                changed |= {f"{name}.{key}": value for key, value in inner.items()}
        return changed

    def _reading(self, name: str, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes a reading of each image, `(N,)`, without standardisation."""
        if name in self.members:
            return self.members[name].score(self.part(values, name), roi)
        if name == "colour":
            return values[name + ROI if roi is not None and name + ROI in values else name]
        summed = values[EVERYWHERE]
        if name == "mean":
            return mean_inside(summed, roi)
        flat, inside = summed.flatten(1), counting(summed, roi).flatten(1)
        highest = (TOP * inside.sum(1).double()).round().clamp_min(1).float()
        ordered = torch.where(inside, flat, flat.amin(1, keepdim=True) - 1).topk(flat.shape[1], 1).values
        is_highest = torch.arange(flat.shape[1])[None] < highest[:, None]
        return torch.where(is_highest, ordered, 0.0).sum(1) / highest

    def _readings(self, values: dict[str, Tensor], roi: Tensor | None) -> dict[str, Tensor]:
        return {name: self._reading(name, values, roi) for name in self.reading_weights}

    def standardised(self, values: dict[str, Tensor], roi: Tensor | None = None) -> dict[str, Tensor]:
        """Returns the standardised readings by name, each `(N,)`, in standard deviations of held-out normal images."""
        kind = "" if roi is None else ROI
        return {name: self.reading_scales[name + kind](v) for name, v in self._readings(values, roi).items()}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes the scores, `(N,)`, the weighted sum of the standardised readings."""
        read = self.standardised(values, roi)
        return torch.stack([weight * read[name] for name, weight in self.reading_weights.items()]).sum(0)

    def about(self) -> dict[str, Any]:
        return {
            "kept": None if self.kept is None else self.kept.tolist(),
            "known": None if self.known is None else self.known.astype(int).tolist(),
            "colours": {name: colour.to_dict() for name, colour in self.colours.items()},
            "map_weights": self.map_weights,
            "reading_weights": self.reading_weights,
            "map_scales": {name: scale.to_dict() for name, scale in self.map_scales.items()},
            "reading_scales": {name: scale.to_dict() for name, scale in self.reading_scales.items()},
        }

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        ensemble = cls(
            config,
            {name: within[f"members.{name}"] for name in config.members},
            None if facts["kept"] is None else np.array(facts["kept"]),
            None if facts["known"] is None else np.array(facts["known"], bool),
            {name: MeanColour.from_dict(values) for name, values in facts["colours"].items()},
        )
        ensemble.map_weights, ensemble.reading_weights = facts["map_weights"], facts["reading_weights"]
        ensemble.map_scales = {name: Scale.from_dict(values) for name, values in facts["map_scales"].items()}
        ensemble.reading_scales = {name: Scale.from_dict(values) for name, values in facts["reading_scales"].items()}
        return ensemble


def _whole(values: dict[str, Tensor]) -> Tensor:
    """Returns the map of a member, or the map before masking if the member is an ensemble."""
    return values.get(EVERYWHERE, values["maps"])


def _resized(maps: Tensor, side: int) -> Tensor:
    return F.interpolate(maps[:, None], (side, side), mode="bilinear", align_corners=False)[:, 0]


def _tensor(roi: np.ndarray | None) -> Tensor | None:
    return None if roi is None else torch.from_numpy(np.array(roi))


def is_quick(member: Member) -> bool:
    """Returns whether a member is fitted in the shared pass of the encoder, on images of their original size."""
    return issubclass(DETECTORS.get(member.detector), MapDetector) and not member.side


def _fit_members(
    encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext, split: Split
) -> dict[str, Detector]:
    """Fits each member on the images that are not held out. Ensembles among the members use the same split.

    Trained members report their steps one after the other. Each finished member is saved in the folder of its name, so
    that it is not lost if a later member is stopped.
    """
    quick = [name for name, member in config.members.items() if is_quick(member)]
    slow = {name: member for name, member in config.members.items() if name not in quick}
    fitted_images, fit_context = rows_of(images, split[0]), context.of(split[0])
    pairs: list[Any] = [(DETECTORS.get(config.members[n].detector), config.members[n].settings) for n in quick]
    report = None if slow else context.report
    detectors = fit_together(encoder, fitted_images, pairs, fit_context.replace(report=report)) if quick else []
    fitted: dict[str, Detector] = dict(zip(quick, detectors, strict=True))
    steps = {name: int(getattr(member.settings, "steps", 0)) for name, member in slow.items()}
    done = 0
    for name, member in slow.items():
        kind, settings = DETECTORS.get(member.detector), member.settings
        folder = None if context.folder is None else context.folder / f"members.{name}"
        if issubclass(kind, Ensemble):
            assert isinstance(settings, Named)
            inner = context.replace(folder=folder, report=None)
            complete = suited(settings.ensemble(), encoder.class_head)
            fitted[name] = kind._fit(encoder, images, complete, inner, split)
            continue
        member_context = fit_context.replace(folder=folder, report=part_of(context.report, done, sum(steps.values())))
        member_images = resized(fitted_images, member.side) if member.side else fitted_images
        if member.side and member_context.roi is not None:
            member_context = member_context.replace(roi=resized(member_context.roi, member.side))
        finished = None
        if isinstance(settings, LesionHeadConfig):
            finished = LesionHead.finished(encoder, member_images, settings, member_context)
        fitted[name] = finished or kind.fit(encoder, member_images, settings, member_context)
        if folder is not None:
            fitted[name].save(folder)
        done += steps[name]
    return {name: fitted[name] for name in config.members}


def choose_weight(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> float:
    """Chooses the weight w from CANDIDATES by the AUROC of `first + w * second`.

    Of the weights whose AUROC is within CLEARLY of the highest, the weight nearest to 1 is returned.

    Args:
        first: Standardised scores or map values of the first member, `(N,)`.
        second: Standardised scores or map values of the second member, `(N,)`.
        labels: Labels 0 and 1, `(N,)`. Both must occur.
    """
    from sklearn.metrics import roc_auc_score  # imported here because scikit-learn takes seconds to load

    auroc = {w: roc_auc_score(labels, first + w * second) for w in CANDIDATES}
    candidates = [w for w in CANDIDATES if auroc[w] >= max(auroc.values()) - CLEARLY]
    return min(candidates, key=lambda w: abs(np.arctan(w) - np.pi / 4))


@DETECTORS.register("blend", title="Quick detectors, blended", compares=True)
class Blend(Ensemble):
    """Detector for a first look: quick detectors on pretrained features, without any training."""

    name = "blend"
    Config = BlendConfig


@DETECTORS.register("blend-head", title="Quick detectors and lesion head", compares=True, section="Sec. Conclusion")
class BlendHead(Ensemble):
    """Default detector on a trained encoder: the blend, and a lesion head on frozen features."""

    name = "blend-head"
    Config = BlendHeadConfig
    presets = BlendHeadConfig.presets()


@DETECTORS.register("combined", title="Lesion head + PaDiM", section="Sec. Conclusion, with PaDiM")
class Combined(Ensemble):
    """Detector that combines the lesion head and PaDiM with learnt weights."""

    name = "combined"
    Config = CombinedConfig
    presets = with_heads(CombinedConfig)


@DETECTORS.register("ensemble", title="Lesion heads, averaged", section="Sec. Conclusion: a detector suited to PMSACL")
class Heads(Ensemble):
    """Average of several lesion heads with different seeds. Disagreement between the heads indicates uncertainty."""

    name = "ensemble"
    Config = HeadsConfig
    presets = with_heads(HeadsConfig)
