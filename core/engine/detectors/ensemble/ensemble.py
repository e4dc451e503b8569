"""Several detectors as one: a weighted sum of their maps and of readings of the image, all on one scale.

What they see differs, and they err in different places. Each map and each reading is put on the scale of normal images
that no member was fitted on (mean 0, standard deviation 1), then weighted and added. Weights are equal, given, or
learnt. Where hardly any normal image shows a place, the map says nothing: there is nothing to compare with.

    config = EnsembleConfig(members, maps=equal(members), readings={"mean": 0.5, "colour": 0.5})
    ensemble = Ensemble.fit(encoder, normals, config)

`blend` (a first look), `blend-head` (the default on a trained encoder), `combined` and `ensemble` are configurations of
it that have a name (named.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self

from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import blur, cells_inside, counted, roi_at, upsample, usually_inside
from core.engine.calibration.scale import LEAST, Scale, places_unseen
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.ensemble.config import EnsembleConfig, Member, aligned_weights, suited
from core.engine.detectors.ensemble.named import (
    BlendConfig,
    BlendHeadConfig,
    CombinedConfig,
    HeadsConfig,
    Named,
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

TOP = 0.05  # share of an image's cells
EVERYWHERE = "everywhere"  # among the extras: the summed map before anything was left out
ROI = "_roi"  # after the name of a reading's scale: inside the region of interest
CANDIDATES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # for a weight that is learnt
CLEARLY = 0.005  # of AUROC: what is within this of the best counts as good as the best
Split = tuple[np.ndarray, np.ndarray]  # places of the images that members are fitted on, and of those they never see


class Ensemble(Detector):
    """A detector that adds up its members' maps and readings, each with a weight.

    extras: `everywhere` (N, h, w), the map before anything was left out; `colour` (N,) and, where the region of
    interest is given, `colour_roi`; of each member with a reading its map and extras by `MEMBER.NAME`; of two or more
    such members also their standardised scores (N,), by name, or side by side in `members` (N, M) if they are all of
    one kind.
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
        """fitted_rows: places, among the images of the fit, of those that the members hold; None for files that do not
        say. known: bool (h, w), places that normal images show; None for all. colours: of whole images, `colour`, and
        of regions of interest, `colour_roi`.
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
        cls,
        encoder: Encoder,
        images: np.ndarray,
        config: EnsembleConfig | Named,
        context: FitContext = FitContext(),
    ) -> Self:
        """Fits all members and scales on images uint8 (N, S, S, 3), normal. The encoder given is not changed.

        Of fewer than 16 images none can be spared: quick members are fitted on all of them, and the scales come from
        each image as members fitted on the others see it; a class head is left out. Raises ValueError for fewer than 3
        images, or fewer than 16 where a member takes a training.
        """
        head = encoder.class_head if len(images) >= LEAST else None
        whole = suited(config.ensemble() if isinstance(config, Named) else config, head)
        if 3 <= len(images) < LEAST and all(_is_quick(m) for m in whole.members.values()) and not whole.learn:
            return cls._fit_few(encoder, images, whole, context)
        split = places_unseen(len(images), whole.unseen, whole.seed, context.patients)
        return cls._fit(encoder, images, whole, context, split)

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
        every = np.arange(len(images))
        with remembering():  # the encoder reads each image once for all fits
            ensemble = cls._unscaled(encoder, images, config, context, (every, every[:0]))
            alone = []
            for i in every:
                split = np.delete(every, i), every[i : i + 1]
                others = cls._unscaled(encoder, images, config, context.replace(report=None), split)
                alone.append(others._read(rows_of(images, split[1]), 1, context.of(split[1]).roi))
        parts, colours = zip(*alone, strict=True)
        ensemble._take_scales(
            {name: Prediction.joined([of_one[name] for of_one in parts]) for name in config.members},
            {name: np.concatenate([colour[name] for colour in colours]) for name in colours[0]},
            ensemble._side(images),
            context.roi,
        )
        return ensemble

    @classmethod
    def _unscaled(
        cls, encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext, split: Split
    ) -> Self:
        fitted_rows, known, colours = split[0], None, {}
        if config.seen and context.roi is not None:
            known = usually_inside(context.roi, -(-images.shape[1] // config.stride)) >= config.seen
        if "colour" in config.readings:
            fitted, roi = rows_of(images, fitted_rows), context.of(fitted_rows).roi
            colours = {"colour": MeanColour.fit(fitted), "colour" + ROI: MeanColour.fit(fitted, roi)}
        members = _fit_members(encoder, images, config, context, split)
        ensemble = cls(config, members, fitted_rows, known, colours)
        shares = {
            name: member.alignment(len(fitted_rows), known)
            for name, member in members.items()
            if isinstance(member, PaDiM) and name in config.aligned
        }
        ensemble.map_weights = aligned_weights(config.maps, config.aligned, shares)
        return ensemble

    def _take_scales(
        self, parts: dict[str, Prediction], colours: dict[str, np.ndarray], side: int, roi: np.ndarray | None
    ) -> None:
        """From what members say of normal images that they have not seen."""
        for name in self.map_weights:
            maps = _whole(parts[name])
            # A blurred map is measured where it is added: its own cells are finer than what it knows.
            maps = self._on_grid(name, maps, side) if self.config.members[name].blur else maps
            self.map_scales[name] = Scale.of(cells_inside(maps, roi))
        prediction = self._joined(parts, colours, side)
        for kind, region in {"": roi if not self.config.by_region else None, ROI: roi}.items():
            for name, values in self._readings(prediction, region).items():
                # An ensemble's readings are on that scale already.
                scaled = name in self.members and isinstance(self.members[name], Ensemble)
                self.reading_scales[name + kind] = Scale() if scaled else Scale.of(values)

    def _with_class_head_if_it_helps(self, images: np.ndarray, roi: np.ndarray | None) -> Self:
        """Leaves the class head out unless it helps to tell lesions of kinds that nothing was trained on.

        images: normal ones that no member has seen; the lesions are pasted into them.
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
            told = [np.mean([f["auroc"] for f in judge(d, images, roi).values()]) for d in (plain, self)]
        return self if told[1] - told[0] >= CLEARLY else plain

    def _learn_weights(self, images: np.ndarray, roi: np.ndarray | None) -> None:
        """From normal images that no member has seen, with lesions of families that the lesion head has not either."""
        first, second = self.members
        [head] = (m.settings for m in self.config.members.values() if m.detector == "lesion-head")
        assert isinstance(head, LesionHeadConfig)
        data = SyntheticValidation.draw(images, roi, head)
        labels = data.labels[data.use]
        if len(set(labels)) < 2:
            return
        side, (parts, colours) = self._side(images), self._read(data.images, 32, None)
        if "score" in self.config.learn:
            read = self.standardised(self._joined(parts, colours, side), data.roi)
            self.reading_weights[second] = choose_weight(read[first][data.use], read[second][data.use], labels)
        if "map" in self.config.learn:
            maps = {name: self._standard_map(name, prediction, side) for name, prediction in parts.items()}
            shape = maps[first].shape[1:]
            lesion = roi_at(data.masks.astype(np.uint8), shape)
            inside = np.ones_like(lesion) if data.roi is None else roi_at(data.roi, shape)
            self.map_weights[second] = choose_weight(maps[first][inside], maps[second][inside], lesion[inside])

    def _side(self, images: np.ndarray) -> int:
        return -(-images.shape[1] // self.config.stride)

    def _parts(self, images: np.ndarray, batch: int, roi: np.ndarray | None) -> dict[str, Prediction]:
        """What each member says of images uint8 (N, S, S, 3); quick members share one pass of the encoder."""
        quick = [name for name, member in self.config.members.items() if _is_quick(member)]
        alike: list[Any] = [self.members[name] for name in quick]
        parts = dict(zip(quick, predict_together(alike, images, batch=batch, roi=roi) if quick else [], strict=True))
        for name, member in self.config.members.items():
            if name not in parts:
                shown, region = (
                    rows if rows is None or not member.side else resized(rows, member.side) for rows in (images, roi)
                )
                assert shown is not None
                parts[name] = self.members[name].predict(shown, batch=batch, roi=region)
        return {name: parts[name] for name in self.config.members}

    def _read(
        self, images: np.ndarray, batch: int, roi: np.ndarray | None
    ) -> tuple[dict[str, Prediction], dict[str, np.ndarray]]:
        """What the members say of images, and how unusual their colours are."""
        return self._parts(images, batch, roi), self._colours(images, roi)

    def _on_grid(self, name: str, maps: np.ndarray, side: int) -> np.ndarray:
        """A member's maps (N, h, w), blurred as it asks for, on the grid on which maps are added."""
        sigma = self.config.members[name].blur * maps.shape[1] / 256
        return upsample(blur(torch.from_numpy(maps), sigma).numpy() if sigma else maps, side)

    def _standard_map(self, name: str, prediction: Prediction, side: int) -> np.ndarray:
        return self.map_scales[name](self._on_grid(name, _whole(prediction), side))

    def _colours(self, images: np.ndarray, roi: np.ndarray | None) -> dict[str, np.ndarray]:
        """How unusual the mean colours of images are, (N,): of whole images and of regions of interest."""
        return {
            name: colour.distances(images, roi if name.endswith(ROI) else None)
            for name, colour in self.colours.items()
            if roi is not None or not name.endswith(ROI)
        }

    def _joined(self, parts: dict[str, Prediction], colours: dict[str, np.ndarray], side: int) -> Prediction:
        whole = np.zeros((len(next(iter(parts.values())).maps), side, side), np.float32)
        for name, weight in self.map_weights.items():
            whole += np.float32(weight) * self._standard_map(name, parts[name], side)
        extras: dict[str, np.ndarray] = {EVERYWHERE: whole, **colours}
        for name in (n for n in parts if n in self.reading_weights):
            extras |= {f"{name}.maps": parts[name].maps, **{f"{name}.{k}": v for k, v in parts[name].extras.items()}}
        return Prediction(self.where_known(whole), extras)

    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps float32 (N, h, w) on the grid of `stride`, in standard deviations of normal images.

        They are 0 where nothing is known, and the same with or without `roi`.
        """
        prediction = self._joined(*self._read(images, batch, roi), self._side(images))
        named = [name for name in self.reading_weights if name in self.members]
        if len(named) > 1 and not any(isinstance(self.members[name], Ensemble) for name in named):
            scores = {name: self.reading_scales[name](self._reading(name, prediction, None)) for name in named}
            kinds = {self.config.members[name].detector for name in named}
            prediction.extras.update({"members": np.stack(list(scores.values()), 1)} if len(kinds) == 1 else scores)
        return prediction

    def where_known(self, maps: np.ndarray, elsewhere: np.ndarray | None = None) -> np.ndarray:
        """Sets maps (N, h, w) to 0, or to the maps `elsewhere` on any grid, where normal images show nothing."""
        if self.known is None:
            return maps
        side = maps.shape[1]
        other = 0.0 if elsewhere is None else upsample(elsewhere, side)
        return np.where(upsample(self.known[None], side)[0] >= 0.5, maps, other).astype(np.float32)

    def part(self, prediction: Prediction, name: str) -> Prediction:
        """Returns the prediction of member `name`, which has a reading, of the same images."""
        own = {k.removeprefix(f"{name}."): v for k, v in prediction.extras.items() if k.startswith(f"{name}.")}
        return Prediction(own.pop("maps"), own)

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns the prediction with other maps (N, h, w), on a grid of any side.

        Readings follow what the maps say where normal images show something. A change of the sum is a change of each
        ensemble in it, by its weight and scale.
        """
        whole = self.where_known(maps, prediction.extras[EVERYWHERE])
        change = self.where_known(maps - upsample(prediction.maps, maps.shape[1]))
        extras = {**prediction.extras, EVERYWHERE: whole}
        for name, member in self.members.items():
            if isinstance(member, Ensemble) and self.map_weights.get(name) and name in self.reading_weights:
                inner = self.part(prediction, name)
                moved = upsample(inner.maps, maps.shape[1]) + change * self.map_scales[name].sd / self.map_weights[name]
                inner = member.changed(inner, moved)
                extras |= {f"{name}.maps": inner.maps, **{f"{name}.{k}": v for k, v in inner.extras.items()}}
        return Prediction(maps, extras)

    def _reading(self, name: str, prediction: Prediction, roi: np.ndarray | None) -> np.ndarray:
        """One reading of each image (N,), as it comes."""
        if name in self.members:
            return self.members[name].image_score(self.part(prediction, name), roi)
        if name == "colour":
            return prediction.extras[name + ROI if roi is not None and name + ROI in prediction.extras else name]
        whole = prediction.extras[EVERYWHERE]
        flat = whole.reshape(len(whole), -1)
        inside = counted(whole, roi).reshape(flat.shape)
        count = inside.sum(1)
        if name == "mean":
            return np.asarray(np.where(inside, flat, 0).sum(1) / count)
        ordered = -np.sort(-np.where(inside, flat, -np.inf), 1)
        top = np.maximum(1, np.round(TOP * count)).astype(int)
        return np.array([row[:n].mean() for row, n in zip(ordered, top, strict=True)])

    def _readings(self, prediction: Prediction, roi: np.ndarray | None) -> dict[str, np.ndarray]:
        return {name: self._reading(name, prediction, roi) for name in self.reading_weights}

    def standardised(self, prediction: Prediction, roi: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Returns the readings (N,) by name, in standard deviations of normal images."""
        kind = "" if roi is None else ROI
        return {name: self.reading_scales[name + kind](v) for name, v in self._readings(prediction, roi).items()}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores by the weighted sum of the standardised readings: (N,) float32."""
        read = self.standardised(prediction, roi)
        return np.sum([weight * read[name] for name, weight in self.reading_weights.items()], 0).astype(np.float32)

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


def _whole(prediction: Prediction) -> np.ndarray:
    """A member's map, of an ensemble's before anything was left out."""
    return prediction.extras.get(EVERYWHERE, prediction.maps)


def _is_quick(member: Member) -> bool:
    """Whether it is fitted in the same pass of the encoder, over the images as they are given."""
    return issubclass(DETECTORS.get(member.detector), MapDetector) and not member.side


def _fit_members(
    encoder: Encoder, images: np.ndarray, config: EnsembleConfig, context: FitContext, split: Split
) -> dict[str, Detector]:
    """Each member fitted on the kept images, ensembles among them with the same split.

    The steps of members that train are reported, each after those before it; such a member is kept in the folder of its
    name once it is finished, so that a stop loses none.
    """
    quick = [name for name, member in config.members.items() if _is_quick(member)]
    others = {name: member for name, member in config.members.items() if name not in quick}
    fitted_images, around = rows_of(images, split[0]), context.of(split[0])
    wanted: list[Any] = [(DETECTORS.get(config.members[n].detector), config.members[n].settings) for n in quick]
    report = None if others else context.report
    detectors = fit_together(encoder, fitted_images, wanted, around.replace(report=report)) if quick else []
    fitted: dict[str, Detector] = dict(zip(quick, detectors, strict=True))
    steps = {name: int(getattr(member.settings, "steps", 0)) for name, member in others.items()}
    done = 0
    for name, member in others.items():
        kind, settings = DETECTORS.get(member.detector), member.settings
        place = None if context.folder is None else context.folder / f"members.{name}"
        if issubclass(kind, Ensemble):
            assert isinstance(settings, Named)
            inner = context.replace(folder=place, report=None)
            whole = suited(settings.ensemble(), encoder.class_head)
            fitted[name] = kind._fit(encoder, images, whole, inner, split)
            continue
        own = around.replace(folder=place, report=part_of(context.report, done, sum(steps.values())))
        shown = resized(fitted_images, member.side) if member.side else fitted_images
        if member.side and own.roi is not None:
            own = own.replace(roi=resized(own.roi, member.side))
        finished = None
        if isinstance(settings, LesionHeadConfig):
            finished = LesionHead.finished(encoder, shown, settings, own)
        fitted[name] = finished or kind.fit(encoder, shown, settings, own)
        if place is not None:
            fitted[name].save(place)
        done += steps[name]
    return {name: fitted[name] for name in config.members}


def choose_weight(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> float:
    """Chooses the weight w for which first + w second separates the labels best.

    Of those as good, it is the nearest to 1. All (N,): standardised scores, or cells of standardised maps. labels 0
    or 1, both present.
    """
    from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

    auroc = {w: roc_auc_score(labels, first + w * second) for w in CANDIDATES}
    good = [w for w in CANDIDATES if auroc[w] >= max(auroc.values()) - CLEARLY]
    return min(good, key=lambda w: abs(np.arctan(w) - np.pi / 4))


@DETECTORS.register("blend", title="Quick detectors, blended", compares=True)
class Blend(Ensemble):
    """A first look: quick detectors on pretrained features; nothing is trained."""

    name = "blend"
    Config = BlendConfig


@DETECTORS.register("blend-head", title="Quick detectors and lesion head", compares=True, section="Sec. Conclusion")
class BlendHead(Ensemble):
    """The default on a trained encoder: the blend, and a lesion head on the features as they are."""

    name = "blend-head"
    Config = BlendHeadConfig
    presets = BlendHeadConfig.presets()


@DETECTORS.register("combined", title="Lesion head + PaDiM", section="Sec. Conclusion, with PaDiM")
class Combined(Ensemble):
    """The lesion head and PaDiM, with learnt weights."""

    name = "combined"
    Config = CombinedConfig
    presets = CombinedConfig.presets()


@DETECTORS.register("ensemble", title="Lesion heads, averaged", section="Sec. Conclusion: a detector suited to PMSACL")
class Heads(Ensemble):
    """Lesion heads that differ in their seed; where they differ, the system is not sure."""

    name = "ensemble"
    Config = HeadsConfig
    presets = HeadsConfig.presets()
