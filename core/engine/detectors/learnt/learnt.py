"""A detector that learns from readers' marks beside one that knows normal images alone, so that nothing is found worse.

The learnt map is a logit of each place; to it the base's map is added with a weight, in its own units of held-out
normals and cut at both ends, so that a kind of lesion that nobody marked is still found. Both weights (of the map and
of the image's score) and the level of the outline come from marks that were left out: of the weights that are not
clearly worse there the largest is taken, which is the safe one where little is marked. The level of few marks starts
from what normal images do not exceed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.embed import inference_copy, remembering
from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import counted, roi_at, upsample
from core.engine.calibration.outlines import holding
from core.engine.calibration.percentiles import Calibration
from core.engine.calibration.scale import Scale, leave_out
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Marks, Prediction, at_least_one
from core.engine.detectors.learnt.config import LearntConfig, plural
from core.engine.detectors.learnt.teaching import STRIDES, Check, Decoder, Lessons, taught, taught_on
from core.engine.detectors.map_detector import maps_of
from core.engine.metrics import bootstrap
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import overlaps_of
from core.engine.progress import Report, Stopped
from core.engine.registry import DETECTORS
from core.engine.rows import resized, rows_of

UNSEEN, MOST_UNSEEN = 0.15, 60  # normal images that scales come from: their share where the base does not say, and most
LOGIT, BASE = (-6.0, 8.0), (-3.0, 6.0)  # ends at which the learnt logit and the base's map are cut
SCORE = (-1.0, 8.0)  # ends at which the base's part of the image's score is cut, in deviations of held-out normals
SCORE_WEIGHTS = (0.1, 0.25, 0.5, 1.0)  # of that part, that are tried
LEVELS = np.arange(-6.0, 12.01, 0.25)  # of the outline, that are tried
PLATEAU = 0.98  # of the best mean Dice: the middle of the levels that reach it is taken
READ = 1 << 29  # bytes of maps that are kept while images are read: some batches of them
UNKNOWN = 0.5  # share of an image: where more of it is ignored the case is unfinished
ENOUGH = 4  # patients with marks: with fewer an encoder that learns too learns them by heart
LOST = 0.01  # of Dice on marks left out that a larger weight may cost, an encoder which learns too, or to paste nothing
SPOTS = np.arange(0, 10.01, 0.5)  # above the level of the outline, that are tried for what a part must exceed
FAINT, USUAL = 0.005, 0.9  # Dice that may cost; share of held-out normals in which nothing then need be outlined
DOUBT = 4  # marks that the level without any counts as
FEW, HALF = 10, 0.5  # with fewer marks it is what HALF of the held-out normals nowhere exceed, at most 0
TUNED = "The encoder has learnt too."
LEFT_OUT = "Mean Dice on marks left out: "
NOT_PASTED = "Marked lesions were not pasted: marks left out are outlined as well without."


@dataclass(frozen=True)
class Rule(Config):
    """How the learnt and the base's maps are joined and outlined, and what was gained by it.

    weight: of the base's map in the joined one. score_weight: of the base's score. threshold: level of the outline;
    spot: what each outlined part must somewhere exceed.

    images, patients: marked ones with a lesion; folds: parts left out in turn, 0 where there was too little to leave
    out. Of marked images left out: dice, and base_dice as the base outlines them, the mean difference and its 95 %
    interval by drawing them again; cases: (number of the mark, Dice before, Dice after) of each. What a case tells has
    no part in what is chosen for it: weight, levels and encoder are chosen anew by the other parts alone.
    """

    weight: float = 2.0
    score_weight: float = 1.0
    threshold: float = 0.0
    spot: float = 0.0
    images: int = 0
    patients: int = 0
    folds: int = 0
    dice: float | None = None
    base_dice: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    cases: tuple[tuple[int, float, float], ...] = ()
    words: str = ""

    def told(self, cases: tuple[tuple[int, float, float], ...], patients: np.ndarray | None) -> Self:
        """Returns the rule with what `cases` say of its gain. patients: of all marks, where they are known."""
        if not cases:
            return self.replace(words=f"Learnt from {plural(self.images, 'mark')}.")
        numbers, before, dice = (np.array(column) for column in zip(*cases, strict=True))
        rule = self.replace(
            dice=float(dice.mean()), base_dice=float(before.mean()), difference=float((dice - before).mean()),
            interval=_interval(dice - before, None if patients is None else patients[numbers]), cases=cases,
        )  # fmt: skip
        return rule.replace(words=_words(rule))


@dataclass(frozen=True)
class Scales(Config):
    """Scales that held-out normals set.

    usual, spread: the level below which 99 % of the base's cells lie, and how far above it that of 99.9 % lies. The
    others: of the joined map's pooled score and of the base's, in the region of interest and of the whole image.
    """

    usual: float = 0.0
    spread: float = 1.0
    joined: Scale = Scale()
    joined_roi: Scale = Scale()
    base: Scale = Scale()
    base_roi: Scale = Scale()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        named: dict[str, Any] = {k: Scale.from_dict(v) if isinstance(v, dict) else v for k, v in values.items()}
        return cls(**named)


@dataclass
class Read:
    """What is read of N images: logits (N, h, w), the mean of the decoders', and the base's maps (N, h', w').

    scores (N,): the base's, of the whole image, '', and of the region of interest, '_roi'. roi: None where there is
    none.
    """

    logits: np.ndarray
    maps: np.ndarray
    scores: dict[str, np.ndarray]
    roi: np.ndarray | None


@DETECTORS.register("learnt", title="Learnt from marks", listed=False)
class Learnt(Detector):
    """A detector that adds what it learnt from marks to the map and score of its base.

    extras: `learnt` (N, h, w), the map of the decoders alone; `base.maps` and the base's own by `base.NAME`;
    `unsure` (N,), how undecided the joined map is; `novelty` (N,), how far its most suspicious place lies from every
    marked one; `kinds` (N, K), the share of each kind at that place, where kinds were learnt. remarks: for the run's
    log. tried: mean Dice on marks left out, by what was tried, where more than one way was.
    """

    name = "learnt"
    bank: Tensor | None
    Config = LearntConfig

    def __init__(
        self,
        config: LearntConfig,
        base: Detector,
        encoder: Encoder,
        size: int,
        decoders: Iterable[Decoder] = (),
        rule: Rule | None = None,
        scales: Scales | None = None,
        bank: Tensor | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        """decoders: none where nothing was marked; the base then reads alone. bank (m, C): of marked lesions."""
        super().__init__()
        self.config, self.base, self.encoder, self.size = config, base, encoder, size
        self.decoders = cast(list[Decoder], nn.ModuleList(decoders))
        self.rule, self.scales = rule or Rule(), scales or Scales()
        self.register_buffer("bank", bank)
        self.names = names
        self.remarks: tuple[str, ...] = (self.rule.words,)
        self.tried: dict[str, float] = {}

    @functools.cached_property
    def reader(self) -> Encoder:
        """The encoder as it is read in scoring."""
        return inference_copy(self.encoder)

    def outline_level(self) -> tuple[float, float] | None:
        """Returns the level at which its map is outlined and the one that each part must somewhere exceed.

        Both are set by the marks. None where it has not learnt.
        """
        return (self.rule.threshold, max(self.rule.spot, self.rule.threshold)) if self.decoders else None

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: LearntConfig, context: FitContext = FitContext()
    ) -> Self:
        """Fits the base on normal images uint8 (N, S, S, 3), or loads it, and learns from `context.marks` beside it."""
        kind, side = DETECTORS.get(config.base), config.base_side or images.shape[1]
        if config.base_run:
            base = kind.load(Path(config.base_run), context.device)
        else:
            roi = None if context.roi is None else resized(context.roi, side)
            base = kind.fit(encoder, resized(images, side), kind.Config(), context.replace(marks=None, roi=roi))
        base.demand_size(resized(images, side))
        marks = context.marks
        fresh = cls(config, base, encoder.to(torch.device(context.device)).eval(), int(images.shape[1]))
        if marks is None or not marks.masks.any():
            fresh.rule = Rule(words="Nothing is marked: the detector before is used as it was.")
            fresh.remarks = (fresh.rule.words,)
            return fresh
        with remembering():  # of marks and held-out normals, which are read again and again
            return fresh._learnt(images, marks, context)

    def _learnt(self, images: np.ndarray, marks: Marks, context: FitContext) -> Self:
        config = self.config
        unseen = unseen_normals(self.base, len(images), config.seed, context.patients)
        taught_rows = np.setdiff1d(np.arange(len(images)), unseen)
        unseen = unseen[:: -(-len(unseen) // MOST_UNSEEN)]
        sick = np.flatnonzero(marks.masks.any((1, 2)))
        whose = (
            np.arange(len(sick)) if marks.patients is None else np.unique(marks.patients[sick], return_inverse=True)[1]
        )
        patients = int(whose.max()) + 1
        parts = min(config.folds, patients) if patients > 1 else 0
        of = np.random.default_rng(config.seed).permutation(patients)[whose] % max(parts, 1)
        folds = [sick[of == fold] for fold in range(max(parts, 1))]
        ways = {"with lesions pasted" if config.paste else "with nothing pasted": config}
        if config.paste and len(sick) >= FEW and patients >= ENOUGH:
            ways["with nothing pasted"] = config.replace(paste=False)
        learns_too = config.tune > 0 and patients >= ENOUGH
        check = Progress(context, 10 * len(ways) + 18 * learns_too)
        normals = rows_of(images, taught_rows), context.of(taught_rows).roi
        known = (rows_of(images, unseen), context.of(unseen).roi), marks, sick, of, parts, patients
        tries: dict[str, Self] = {}
        views: list[Lessons] = []
        for name, way in ways.items():
            views.append(Lessons(self.reader, *normals, marks, way, folds))
            tries[name] = self._with(taught(views[-1], parts, check("Learning", 9)))
            tries[name]._joined_by_marks(*known, check("Joining with the detector before", 1))
        way_taken = better([attempt.rule.cases for attempt in tries.values()])
        attempt, lessons = list(tries.values())[way_taken], views[way_taken]
        views.clear()  # of the other way: some hundred MB
        if learns_too:
            decoders = taught_on(lessons, self.encoder, attempt.decoders, check("Learning with the encoder", 17))
            tries["the encoder too"] = self._with(decoders)
            tries["the encoder too"]._joined_by_marks(*known, check("Joining that with the detector before", 1))
        told = [attempt.rule.cases for attempt in tries.values()]
        best = list(tries.values())[better(told)]
        said: tuple[str, ...] = ()
        if len(told) > 1 and told[0]:
            fold_of = dict(zip(sick.tolist(), of.tolist(), strict=True))
            best.tried = {name: float(np.mean([c[2] for c in attempt.rule.cases])) for name, attempt in tries.items()}
            best.rule = best.rule.told(by_others(told, [fold_of[case[0]] for case in told[0]]), marks.patients)
            said = (LEFT_OUT + ", ".join(f"{dice:.3f} {name}" for name, dice in best.tried.items()) + ".",)
        remarks = {TUNED: best.tuned, NOT_PASTED: config.paste and not lessons.config.paste}
        best.remarks = (best.rule.words, *said, *(remark for remark, holds in remarks.items() if holds))
        return best

    def _with(self, decoders: list[Decoder]) -> Self:
        return type(self)(self.config, self.base, self.encoder, self.size, decoders)

    @property
    def tuned(self) -> bool:
        """Whether its encoder has learnt too. Each decoder then reads images by an encoder of its own."""
        return bool(self.decoders) and self.decoders[-1].encoder is not None

    def _joined_by_marks(
        self, unseen: tuple[np.ndarray, np.ndarray | None], marks: Marks, sick: np.ndarray, of: np.ndarray, parts: int,
        patients: int, check: Check,
    ) -> None:  # fmt: skip
        """Takes scales, rule and bank; unseen: normal images that the base left out, and their regions."""
        self.names = marks.names
        self.bank = self._bank(marks, sick)
        held = self._held(*unseen, check)
        cells = held.maps if held.roi is None else held.maps[roi_at(held.roi, held.maps.shape[1:])]
        usual, most = (float(np.quantile(cells, q)) for q in (0.99, 0.999))
        base = {f"base{name}": Scale.of(scores) for name, scores in held.scores.items()}
        self.scales = Scales(usual, max(most - usual, 1e-6), **base)
        self.rule = self._rule(marks, sick, of, parts, patients, held, check)
        if self.tuned:
            self.decoders = self.decoders[-1:]  # one encoder has to do: that taught by all marks
        maps = self._joined(held.logits, held.maps, self.rule.weight)
        pooled = {f"joined{n}": Scale.of(pooled_odds(maps, held.roi if n else None)) for n in held.scores}
        self.scales = self.scales.replace(**pooled)

    def _held(self, images: np.ndarray, roi: np.ndarray | None, check: Check) -> Read:
        parts = []
        for x, r in _blocks(images, roi, check):
            base = self._base(x, r)
            scores = {"": self.base.image_score(base, None), "_roi": self.base.image_score(base, r)}
            scoring = self.decoders[-1:] if self.tuned else self.decoders
            parts.append((self._logits(x, scoring)[:, :, 0].mean(0), base.maps, scores))
        every = {name: np.concatenate([fold[2][name] for fold in parts]) for name in ("", "_roi")}
        return Read(
            np.concatenate([fold[0] for fold in parts]), np.concatenate([fold[1] for fold in parts]), every, roi
        )

    def _joined(self, logits: np.ndarray, base: np.ndarray, weight: float) -> np.ndarray:
        """The map (N, h, w) of both: logits (N, h, w) and the base's map, as it gives it."""
        return np.clip(logits, *LOGIT) + weight * self._standard(base, logits.shape[-1])

    def _peaks(self, held: Read, weight: float) -> np.ndarray:
        """The highest value (N,) of each held-out normal image's joined map."""
        joined = self._joined(held.logits, held.maps, weight)
        return np.asarray(np.where(counted(joined, held.roi), joined, -np.inf).max((1, 2)))

    def _rule(
        self, marks: Marks, sick: np.ndarray, of: np.ndarray, parts: int, patients: int, held: Read, check: Check
    ) -> Rule:
        """By marks that are left out, each read by the decoder that has not seen it."""
        counts: dict[str, Any] = {"images": len(sick), "patients": patients, "folds": parts}
        safe, learnt_from = Rule(self.config.weights[-1], 1.0, **counts), f"Learnt from {plural(len(sick), 'mark')}"
        if not parts:
            words = f"{learnt_from}: too few to leave one out, so nothing is known of its gain."
            level = level_without(self._peaks(held, safe.weight))
            level *= DOUBT / (DOUBT + 1)  # as if the marks had said 0 and counted as one
            return safe.replace(threshold=level, spot=level, words=words)
        roi = None if marks.roi is None else marks.roi[sick]
        logits, bases, scores = [], [], []
        for x, r in _blocks(marks.images[sick], roi, check):
            logits.append(self._logits(x, self.decoders[:parts])[:, :, 0])
            base = self._base(x, r)
            bases.append(self._standard(base.maps, logits[-1].shape[-1]))
            scores.append(self.base.image_score(base, r))
        every = np.concatenate(logits, 1)
        own, base_maps = every[of, np.arange(len(sick))], np.concatenate(bases)
        side = marks.masks.shape[1]
        truth, valid = marks.masks[sick], np.ones(marks.masks[sick].shape, bool) if roi is None else roi > 0
        if marks.ignored is not None:
            # An unfinished case tells no outline that is too large; only where there is no other are they asked.
            finished = marks.ignored[sick].mean((1, 2)) < UNKNOWN
            use = finished if finished.any() else np.ones(len(sick), bool)
            valid &= (marks.ignored[sick] == 0) | ~finished.any()
            valid &= use[:, None, None]
        curves, cells = {}, {}  # by weight: Dice (levels, m), joined cells
        unmarked, most = {}, {}  # level without any mark, and what USUAL of the held-out normals nowhere exceed
        for weight in self.config.weights:
            cells[weight] = np.clip(own, *LOGIT) + weight * base_maps
            maps = upsample(cells[weight], side)
            curves[weight] = np.stack([overlaps_of((maps > t) & valid, truth, valid)[0] for t in LEVELS])
            peaks = self._peaks(held, weight)
            most[weight] = float(np.quantile(peaks, USUAL))
            unmarked[weight] = level_without(peaks) if len(sick) < FEW else 0.0
        known = ~np.isnan(curves[weight][0])
        if not known.any():
            words = f"{learnt_from}, none of them in the region of interest."
            level = level_without(peaks)  # by the last weight, the safe one
            return safe.replace(threshold=level, spot=level, words=words)

        def chosen(rows: np.ndarray) -> tuple[float, float, float]:
            """(weight, level, spot) by the marks `rows`."""
            weight, level, _ = chosen_weight({weight: curve[:, rows] for weight, curve in curves.items()}, unmarked)
            maps = upsample(cells[weight][rows], side)
            return weight, level, chosen_spot(maps, level, most[weight], truth[rows], valid[rows])[0]

        weight, level, spot = chosen(np.ones(len(sick), bool))
        name = "" if roi is None else "_roi"
        below = [getattr(self.scales, "base" + name)(x) for x in (held.scores[name], np.concatenate(scores))]
        normal = self._joined(held.logits, held.maps, weight)
        pooled = [pooled_odds(normal, held.roi), pooled_odds(cells[weight], roi)]
        score_weight = chosen_score_weight([Scale.of(pooled[0])(x) for x in pooled], below)
        rule = Rule(weight, score_weight, level, spot, **counts)
        before, dice = self._before(marks, sick, valid, held, check), np.full(len(sick), np.nan)
        for fold in np.unique(of[known]):
            rows, rest = of == fold, known & (of != fold)
            weight, level, spot = chosen(rest) if rest.any() else (rule.weight, rule.threshold, rule.spot)
            dice[rows] = spotted(upsample(cells[weight][rows], side), level, spot, truth[rows], valid[rows])
        rows = np.flatnonzero(known & ~np.isnan(dice))
        return rule.told(tuple((int(sick[i]), float(before[i]), float(dice[i])) for i in rows), marks.patients)

    def _before(self, marks: Marks, sick: np.ndarray, valid: np.ndarray, held: Read, check: Check) -> np.ndarray:
        """Dice (m,) of what the base outlines: as it is given, else at the level of its usual normal map."""
        if marks.outlined is not None:
            return overlaps_of(marks.outlined[sick] & valid, marks.masks[sick], valid)[0]
        pixels = Calibration.of(np.zeros(1), held.maps, held.roi).pixels
        assert pixels is not None  # it was made of maps
        roi = None if marks.roi is None else marks.roi[sick]
        base = np.concatenate([self._base(x, r).maps for x, r in _blocks(marks.images[sick], roi, check)])
        outlines = (upsample(base, marks.masks.shape[1]) > pixels.threshold) & valid
        return overlaps_of(outlines, marks.masks[sick], valid)[0]

    @torch.inference_mode()
    def _logits(self, images: np.ndarray, decoders: list[Decoder]) -> np.ndarray:
        """float32 (decoders, B, 1 + kinds, h, w) of images uint8 (B, S, S, 3), by `mirror` of both sides."""
        images = np.asarray(images)
        logits = self._read_once(images, decoders)
        if self.config.mirror:
            logits = (logits + self._read_once(np.ascontiguousarray(images[:, :, ::-1]), decoders)[..., ::-1]) / 2
        return logits

    def _read_once(self, images: np.ndarray, decoders: list[Decoder]) -> np.ndarray:
        maps = maps_of(self.reader, images, set(STRIDES)) if any(d.encoder is None for d in decoders) else {}
        every = []
        for decoder in decoders:
            own = maps if decoder.encoder is None else maps_of(decoder.encoder, images, set(STRIDES))
            every.append(decoder(own).float().cpu().numpy())
        return np.stack(every)

    def _base(self, images: np.ndarray, roi: np.ndarray | None) -> Prediction:
        side = self.config.base_side or self.size
        region = None if roi is None else np.asarray(resized(roi, side))
        return self.base.predict(np.asarray(resized(images, side)), roi=region)

    def _standard(self, maps: np.ndarray, side: int) -> np.ndarray:
        """The base's maps (N, h, w) on a grid of that side, in units of held-out normals, cut."""
        return np.clip((upsample(maps, side) - self.scales.usual) / self.scales.spread, *BASE)

    @torch.inference_mode()
    def _bank(self, marks: Marks, sick: np.ndarray) -> Tensor:
        """Features (m, C) of the marked lesions: mean over each mask of the maps of strides 16 and 32, standardised."""
        cells = []
        for start in range(0, len(sick), 32):
            rows = sick[start : start + 32]
            maps = maps_of(self.reader, marks.images[rows], {16, 32})
            weight = F.interpolate(
                torch.from_numpy(marks.masks[rows]).float()[:, None], maps[16].shape[-2:], mode="area"
            )
            cells.append(self._looked_at(maps, weight.to(maps[16].device)))
        return torch.cat(cells)

    def _looked_at(self, maps: dict[int, Tensor], weight: Tensor) -> Tensor:
        """Features (B, C) at the places that weight (B, 1, h, w) on the grid of stride 16 points at."""
        last, parts = self.decoders[-1], []
        weight = weight / weight.sum((2, 3), keepdim=True).clamp_min(1e-9)
        for s in (16, 32):
            x = (maps[s] - getattr(last, f"mean{s}")) / getattr(last, f"deviation{s}")
            x = F.interpolate(x, weight.shape[-2:], mode="bilinear", align_corners=False) if s != 16 else x
            parts.append((x * weight).sum((2, 3)))
        return torch.cat(parts, 1)

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps float32 (N, h, w) at stride 4; the base's own where nothing was learnt."""
        if not self.decoders:
            return self._base(images, roi)
        self.demand_size(images)
        shown = at_least_one(images)
        parts = []
        with remembering(READ):  # what the base reads of an image is read of it here, where both have one encoder
            for start in range(0, len(shown), batch):
                rows = np.asarray(shown[start : start + batch])
                parts.append(self._read(rows, None if roi is None else roi[start : start + batch]))
        return Prediction.joined(parts, len(images))

    def _read(self, images: np.ndarray, roi: np.ndarray | None) -> Prediction:
        every = self._logits(images, self.decoders)
        mean, base = every.mean(0), self._base(images, roi)
        logits = mean[:, 0]
        joined = self._joined(logits, base.maps, self.rule.weight)
        maps = maps_of(self.reader, images, {16, 32})
        probable = 1 / (1 + np.exp(-np.clip(joined - self.rule.threshold, -30, 30)))
        places = F.interpolate(torch.from_numpy(probable).float()[:, None] ** 2, maps[16].shape[-2:], mode="area")
        look = self._looked_at(maps, places.to(maps[16].device))
        assert self.bank is not None  # decoders come with one
        extras = {
            "learnt": logits,
            "unsure": (4 * probable * (1 - probable)).reshape(len(images), -1).mean(1).astype(np.float32),
            "novelty": (torch.cdist(look, self.bank.to(look.device)).amin(1) / look.shape[1] ** 0.5).cpu().numpy(),
            "base.maps": base.maps,
            **{f"base.{name}": values for name, values in base.extras.items()},
        }
        if self.names:
            share = torch.from_numpy(mean[:, 1:]).softmax(1).numpy()
            weight = probable[:, None]
            extras["kinds"] = (share * weight).sum((2, 3)) / weight.sum((2, 3)).clip(1e-9)
        return Prediction(joined.astype(np.float32), extras)

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores by the joined map's pooled odds and the base's score, (N,), in deviations of held-out normals."""
        if not self.decoders:
            return self.base.image_score(prediction, roi)
        own = {k.removeprefix("base."): v for k, v in prediction.extras.items() if k.startswith("base.")}
        base = Prediction(own.pop("maps"), own)
        small = None if roi is None else np.asarray(resized(roi, self.config.base_side or self.size))
        name = "" if roi is None else "_roi"
        pooled = getattr(self.scales, "joined" + name)(pooled_odds(prediction.maps, roi))
        below = getattr(self.scales, "base" + name)(self.base.image_score(base, small))
        return np.asarray(pooled + self.rule.score_weight * np.clip(below, *SCORE), np.float32)

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns the prediction with other maps; the learnt map follows the change, the base's stays."""
        if not self.decoders:
            return self.base.changed(prediction, maps)
        side = maps.shape[1]
        learnt = upsample(prediction.extras["learnt"], side) + maps - upsample(prediction.maps, side)
        return Prediction(maps, {**prediction.extras, "learnt": learnt})

    def about(self) -> dict[str, Any]:
        rule, scales = self.rule.to_dict(), self.scales.to_dict()
        return {"rule": rule, "scales": scales, "decoders": len(self.decoders), "names": list(self.names)}

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        encoder, names = within["encoder"], tuple(facts["names"])
        decoders = [Decoder(encoder.widths, config.width, len(names)) for _ in range(facts["decoders"])]
        for i, decoder in enumerate(decoders):
            decoder.encoder = within.get(f"decoders.{i}.encoder")
        rule, scales = Rule.from_dict(facts["rule"]), Scales.from_dict(facts["scales"])
        bank = tensors.get("bank")
        detector = cls(config, within["base"], encoder, size, decoders, rule, scales, bank, names)
        return detector.fill(tensors).requires_grad_(False)


class Progress:
    """Reports of a fit in stages; each stage's check raises Stopped when asked to stop."""

    def __init__(self, context: FitContext, parts: int) -> None:
        """parts: of the time that all stages take."""
        self.report: Report | None = context.report
        self.should_stop, self.parts, self.done = context.should_stop, parts, 0

    def __call__(self, title: str, long: int) -> Check:
        """Begins a stage of so many parts."""
        before = self.done
        self.done += long

        def check(share: float = 0.0) -> None:
            if self.should_stop is not None and self.should_stop():
                raise Stopped("learning was stopped; it starts again from the first view")
            if self.report is not None:
                step = int(100 * (before + long * min(share, 1.0)))
                self.report({"step": step, "steps": 100 * self.parts, "message": title})

        check()
        return check


def unseen_normals(base: Detector, count: int, seed: int, patients: np.ndarray | None) -> np.ndarray:
    """Returns places, among the fit's `count` normal images, of those that the base left out; else of some drawn."""
    fitted_rows = getattr(base, "kept", None)
    if isinstance(fitted_rows, np.ndarray) and len(fitted_rows) < count and fitted_rows.max() < count:
        return np.setdiff1d(np.arange(count), fitted_rows)
    return leave_out(count, max(2, round(UNSEEN * count)), seed, patients)[1]


Cases = tuple[tuple[int, float, float], ...]  # of `Rule.cases`


def better(tries: list[Cases]) -> int:
    """Chooses among several tries, in their order: each is taken unless it loses LOST of mean Dice to that before.

    An encoder that learns too gained more on images that were not marked than marks left out had told.
    """
    best = 0
    for i, cases in enumerate(tries):
        if cases and np.mean([c[2] for c in cases]) > np.mean([c[2] for c in tries[best]]) - LOST:
            best = i
    return best


def by_others(tries: list[Cases], folds: list[int]) -> Cases:
    """Returns each case as told by the try that the other folds' cases choose; the same cases in each try."""
    told = []
    for place, fold in enumerate(folds):
        rest = [tuple(c for c, f in zip(cases, folds, strict=True) if f != fold) for cases in tries]
        told.append(tries[better(rest) if rest[0] else 0][place])
    return tuple(told)


def level_without(peaks: np.ndarray) -> float:
    """Computes the level of the outline before any mark is asked, by the highest values (n,) of held-out normals.

    What learnt from few is sure of little but what it has seen: 0 would outline nothing else.
    """
    return min(float(np.quantile(peaks, HALF)), 0.0)


def chosen_weight(curves: dict[float, np.ndarray], unmarked: dict[float, float]) -> tuple[float, float, np.ndarray]:
    """Chooses (weight, level, Dice (m,)) by the Dice (levels, m) of marks left out, for each weight tried.

    Each weight has its own best level, the middle of a plateau. Of the weights whose mean Dice lies within LOST of the
    best, the largest is taken. The level is drawn towards that of `unmarked`, by weight, as if DOUBT more marks had
    said so, and the Dice is that at the level taken.
    """
    best: dict[float, tuple[float, np.ndarray]] = {}
    for weight, curve in curves.items():
        mean = np.nanmean(curve, 1)
        near = LEVELS[mean >= PLATEAU * mean.max()]
        count = int((~np.isnan(curve[0])).sum())
        level = float((near.mean() * count + unmarked[weight] * DOUBT) / (count + DOUBT))
        best[weight] = level, curve[int(np.abs(LEVELS - level).argmin())]
    means = {weight: float(np.nanmean(dice)) for weight, (_, dice) in best.items()}
    weight = max(w for w, mean in means.items() if mean >= max(means.values()) - LOST)
    return weight, *best[weight]


def chosen_spot(
    maps: np.ndarray, level: float, most: float, truth: np.ndarray, valid: np.ndarray
) -> tuple[float, np.ndarray]:
    """Chooses what each outlined part must somewhere exceed by joined maps (m, S, S) of marks left out.

    Returns it and the Dice (m,) there. It is half the way to the highest that costs no more than FAINT of the mean Dice
    and is no higher than held-out normals ask for: few marks cannot tell at which level the first lesion is lost.
    """
    dice = []
    for spot in level + SPOTS:
        dice.append(spotted(maps, level, spot, truth, valid))
        if spot >= most:
            break
    means = np.array([np.nanmean(values) if not np.isnan(values).all() else 0.0 for values in dice])
    best = int(np.flatnonzero(means >= means.max() - FAINT).max()) // 2
    return float(level + SPOTS[best]), dice[best]


def spotted(maps: np.ndarray, level: float, spot: float, truth: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Computes the Dice (m,) of what lies above `level` of maps (m, S, S), in parts that somewhere exceed `spot`."""
    inside = (maps > level) & valid
    marked = np.stack([holding(region, region & (heat > spot)) for region, heat in zip(inside, maps, strict=True)])
    return np.asarray(overlaps_of(marked, truth, valid)[0])


def _blocks(images: np.ndarray, roi: np.ndarray | None, check: Check) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    for start in range(0, len(images), 32):
        check(start / len(images))
        yield np.asarray(images[start : start + 32]), None if roi is None else roi[start : start + 32]


def chosen_score_weight(pooled: list[np.ndarray], base: list[np.ndarray]) -> float:
    """Chooses that of SCORE_WEIGHTS with the highest AUROC, by scores of held-out normals and of marks left out.

    pooled, base: (n,) and (m,) each, in deviations of the first. Of weights that do as well the largest is taken, which
    is the safe one.
    """
    labels = np.repeat([0, 1], [len(x) for x in pooled])
    learnt, other = (np.concatenate(x) for x in (pooled, base))
    aurocs = {w: auroc(learnt + w * np.clip(other, *SCORE), labels) or 0.0 for w in SCORE_WEIGHTS}
    return max(aurocs, key=lambda w: (round(aurocs[w], 3), w))


def pooled_odds(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Computes the logarithm (N,) of the mean odds of a lesion, over the cells that count: maps of logits (N, h, w).

    Both a small place of which a map is sure and a large one of which it is less sure count, without a size that had
    to be known.
    """
    inside = counted(maps, roi)
    cells = np.where(inside, maps, -np.inf).reshape(len(maps), -1).astype(np.float64)
    return np.asarray(np.logaddexp.reduce(cells, 1) - np.log(inside.sum((1, 2))))


def _interval(gain: np.ndarray, patients: np.ndarray | None) -> tuple[float, float] | None:
    """95 %, of the mean gain (n,), drawing patients again; None for fewer than three."""
    whose = np.arange(len(gain)) if patients is None else np.unique(patients, return_inverse=True)[1]
    if whose.max() < 2:
        return None
    return bootstrap.interval_of_mean(gain, whose)


def _words(rule: Rule) -> str:
    assert rule.difference is not None
    where = f"On {plural(len(rule.cases), 'marked case')} left out in turn"
    if rule.interval is None:
        return f"{where}, Dice is {rule.dice:.2f} instead of {rule.base_dice:.2f}; too few to say how sure that is."
    low, high = rule.interval
    if low <= 0 <= high:
        figures = f"{rule.difference:+.2f} (95 %: {low:+.2f} to {high:+.2f})".replace("-", "−")
        return f"{where}, Dice does not clearly change: {figures}."
    least, most = sorted((abs(low), abs(high)))
    word = "better" if rule.difference > 0 else "worse"
    return f"{where}, Dice is {word} by {abs(rule.difference):.2f} (95 %: {least:.2f} to {most:.2f})."
