"""A detector that learns from readers' annotations ("marks"), combined with a detector fitted only on normal images.

The learnt map has a logit at each position. The base detector's map is standardised on held-out normals, clipped and
added with a weight, so that kinds of lesions that nobody annotated are still found. Cross-validation chooses this
weight, the weight of the base's score and the threshold of outlines. The map's weight is the largest that is not
clearly worse on held-out marks, which is the safest choice with few marks. The score's weight is the one with the
highest AUROC. With few marks, the threshold is moved towards the median of the normal maps' maxima.
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
from core.engine.calibration.outlines import regions_containing
from core.engine.calibration.percentiles import Calibration
from core.engine.calibration.scale import Scale, leave_out
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Marks, Prediction, at_least_one
from core.engine.detectors.learnt.config import ENOUGH, LearntConfig, plural
from core.engine.detectors.learnt.teaching import STRIDES, Check, Decoder, ViewSampler, fine_tune, train_decoders
from core.engine.detectors.map_detector import maps_of
from core.engine.metrics import bootstrap
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import overlaps_of
from core.engine.progress import Report, Stopped
from core.engine.registry import DETECTORS
from core.engine.rows import resized, rows_of

UNSEEN, MOST_UNSEEN = 0.15, 60  # fraction (if the base has no held-out normals) and maximum of normals for scales
LOGIT, BASE = (-6.0, 8.0), (-3.0, 6.0)  # ranges to which the learnt logit and the base's map are clipped
SCORE = (-1.0, 8.0)  # range to which the base's standardised score is clipped
SCORE_WEIGHTS = (0.1, 0.25, 0.5, 1.0)  # candidate weights of the base's score
LEVELS = np.arange(-6.0, 12.01, 0.25)  # candidate thresholds of outlines
PLATEAU = 0.98  # fraction of the best mean Dice; thresholds that reach this fraction are averaged
READ = 1 << 29  # bytes of feature maps that are cached during prediction, enough for some batches
UNKNOWN = 0.5  # fraction of ignored pixels above which a case counts as unfinished
LOST = 0.01  # Dice on held-out marks that a larger weight, fine-tuning or no pasting may cost
SPOTS = np.arange(0, 10.01, 0.5)  # candidate minimum peaks of outlined regions, relative to the threshold
FAINT, USUAL = 0.005, 0.9  # Dice that a higher peak may cost; fraction of held-out normals without an outline
DOUBT = 4  # number of marks to which the threshold from normal images is equivalent
FEW, HALF = 10, 0.5  # below FEW marks, that threshold is the quantile HALF of the normal images' maxima, at most 0
FIRST = "without fine-tuning"
TUNED = "The encoder was fine-tuned as well."
LEFT_OUT = "Mean Dice on held-out marks: "
NOT_PASTED = "Annotated lesions were not pasted, because outlines of held-out marks are as good without pasting."


@dataclass(frozen=True)
class Rule(Config):
    """Rule by which the learnt map and the base's map are combined and outlined, with its gain in cross-validation.

    To measure the gain on a case, weight, thresholds and encoder are chosen only on the folds without this case.
    """

    weight: float = 2.0  # weight of the base's map
    score_weight: float = 1.0  # weight of the base's score
    threshold: float = 0.0  # map value above which pixels are outlined
    spot: float = 0.0  # peak that each outlined region must exceed
    images: int = 0  # number of images with annotated lesions
    patients: int = 0  # number of patients with annotated lesions
    folds: int = 0  # number of cross-validation folds, or 0 if all marks are of one patient
    dice: float | None = None  # mean Dice on held-out marks
    base_dice: float | None = None  # mean Dice of the base's outlines
    difference: float | None = None  # mean of dice - base_dice
    interval: tuple[float, float] | None = None  # 95 % bootstrap interval of the difference
    cases: tuple[tuple[int, float, float], ...] = ()  # (index, Dice of the base, Dice) of each mark
    words: str = ""  # sentence about the gain, for users

    def with_gain(self, cases: tuple[tuple[int, float, float], ...], patients: np.ndarray | None) -> Self:
        """Returns a copy with the gain on `cases` and its description, `words`. `patients` has each mark's patient."""
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
    """Scales, estimated on held-out normal images, by which maps and scores are standardised.

    The suffix `_roi` stands for scores in the region of interest instead of the whole image.
    """

    usual: float = 0.0  # 99 % quantile of the base's map
    spread: float = 1.0  # difference between the 99.9 % and the 99 % quantile
    joined: Scale = Scale()  # scale of the pooled score of the combined map
    joined_roi: Scale = Scale()
    base: Scale = Scale()  # scale of the base's score
    base_roi: Scale = Scale()

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        scales: dict[str, Any] = {k: Scale.from_dict(v) if isinstance(v, dict) else v for k, v in values.items()}
        return cls(**scales)


@dataclass
class HeldOut:
    """Results of the detector for N held-out normal images."""

    logits: np.ndarray  # (N, h, w), mean over the decoders
    maps: np.ndarray  # (N, h', w'), maps of the base
    scores: dict[str, np.ndarray]  # scores of the base, (N,): '' in the image, '_roi' in the region of interest
    roi: np.ndarray | None  # uint8 (N, S, S)


@DETECTORS.register("learnt", title="Learnt from marks", listed=False)
class Learnt(Detector):
    """Detector that combines what it learnt from readers' annotations with the map and the score of a base detector.

    Predictions have the extras `learnt`, `(N, h, w)`, the map of the decoders; `base.maps`, the base's map;
    `base.NAME`, the base's extras; `unsure`, `(N,)`, the uncertainty of the combined map; and `novelty`, `(N,)`, the
    distance of an image's most suspicious positions from the nearest annotated lesion in feature space. If kinds of
    lesions were annotated, `kinds`, `(N, K)`, is the probability of each kind at these positions.
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
        super().__init__()
        self.config, self.base, self.encoder, self.size = config, base, encoder, size
        self.decoders = cast(list[Decoder], nn.ModuleList(decoders))  # without decoders, the base is used alone
        self.rule, self.scales = rule or Rule(), scales or Scales()
        self.register_buffer("bank", bank)  # (m, C), features of annotated lesions
        self.names = names
        self.remarks: tuple[str, ...] = (self.rule.words,)  # lines for the run's log
        self.tried: dict[str, float] = {}  # mean Dice on held-out marks of each variant, if several were tried

    @functools.cached_property
    def reader(self) -> Encoder:
        """Copy of the encoder for inference."""
        return inference_copy(self.encoder)

    def outline_level(self) -> tuple[float, float] | None:
        """Returns the threshold and the minimum peak of outlined regions, or None if nothing was learnt."""
        return (self.rule.threshold, max(self.rule.spot, self.rule.threshold)) if self.decoders else None

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: LearntConfig, context: FitContext = FitContext()
    ) -> Self:
        """Fits or loads the base, then learns from `context.marks`. The normal images are `uint8 (N, S, S, 3)`.

        With `context.first`, its decoders are fine-tuned and no new ones are trained. If the Dice on held-out annotated
        images is then unknown or clearly lower, `context.first` itself is returned. Raises Stopped if
        `context.should_stop` returns True, and ValueError if a loaded base was fitted on images of another size.
        """
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
            fresh.rule = Rule(words="Nothing is annotated: the base detector is used unchanged.")
            fresh.remarks = (fresh.rule.words,)
            return fresh
        with remembering():  # because annotated images and held-out normals are read several times
            return fresh._learnt(images, marks, context)

    def _learnt(self, images: np.ndarray, marks: Marks, context: FitContext) -> Self:
        config = self.config
        unseen = unseen_normals(self.base, len(images), config.seed, context.patients)
        training_rows = np.setdiff1d(np.arange(len(images)), unseen)
        unseen = unseen[:: -(-len(unseen) // MOST_UNSEEN)]
        sick = np.flatnonzero(marks.masks.any((1, 2)))
        owners = (
            np.arange(len(sick)) if marks.patients is None else np.unique(marks.patients[sick], return_inverse=True)[1]
        )
        patients = int(owners.max()) + 1
        fold_count = min(config.folds, patients) if patients > 1 else 0
        fold_of = np.random.default_rng(config.seed).permutation(patients)[owners] % max(fold_count, 1)
        folds = [sick[fold_of == fold] for fold in range(max(fold_count, 1))]
        variants = {"with lesions pasted" if config.paste else "with nothing pasted": config}
        if config.paste and len(sick) >= FEW and patients >= ENOUGH:
            variants["with nothing pasted"] = config.replace(paste=False)
        fine_tunes = config.tune > 0 and patients >= ENOUGH
        check = Progress(context, (0 if context.first else 10 * len(variants)) + 18 * fine_tunes)
        normals = rows_of(images, training_rows), context.of(training_rows).roi
        validation = (rows_of(images, unseen), context.of(unseen).roi), marks, sick, fold_of, fold_count, patients
        tries: dict[str, Self] = {}
        views: list[ViewSampler] = []
        if context.first is not None:
            first, variants = cast(Self, context.first), {}
            variant = config.replace(paste=first.config.paste)
            views.append(ViewSampler(self.reader, *normals, marks, variant, folds).after(config.steps))
            tries[FIRST] = first
        for name, variant in variants.items():
            views.append(ViewSampler(self.reader, *normals, marks, variant, folds))
            tries[name] = self._with(train_decoders(views[-1], fold_count, check("Learning", 9)), variant)
            tries[name]._joined_by_marks(*validation, check("Combining with the base detector", 1))
        chosen = better([attempt.rule.cases for attempt in tries.values()])
        attempt, lessons = list(tries.values())[chosen], views[chosen]
        views.clear()  # because the views of the other variant take some hundred MB
        if fine_tunes:
            decoders = fine_tune(lessons, self.encoder, attempt.decoders, check("Fine-tuning the encoder", 17))
            tries["with a fine-tuned encoder"] = attempt = self._with(decoders, lessons.config)
            attempt._joined_by_marks(*validation, check("Combining with the base detector", 1))
        cases = [attempt.rule.cases for attempt in tries.values()]
        best = list(tries.values())[better(cases)]
        comparison: tuple[str, ...] = ()
        if len(cases) > 1 and cases[0]:
            fold_by_mark = dict(zip(sick.tolist(), fold_of.tolist(), strict=True))
            best.tried = {name: float(np.mean([c[2] for c in attempt.rule.cases])) for name, attempt in tries.items()}
            case_folds = [fold_by_mark[case[0]] for case in cases[0]]
            best.rule = best.rule.with_gain(by_others(cases, case_folds), marks.patients)
            comparison = (LEFT_OUT + ", ".join(f"{dice:.3f} {name}" for name, dice in best.tried.items()) + ".",)
        remarks = {TUNED: best.tuned, NOT_PASTED: config.paste and not lessons.config.paste}
        best.remarks = (best.rule.words, *comparison, *(remark for remark, holds in remarks.items() if holds))
        return best

    def _with(self, decoders: list[Decoder], config: LearntConfig) -> Self:
        return type(self)(config, self.base, self.encoder, self.size, decoders)

    @property
    def tuned(self) -> bool:
        """Whether the encoder was fine-tuned as well. Each decoder then has its own copy of the encoder."""
        return bool(self.decoders) and self.decoders[-1].encoder is not None

    def _joined_by_marks(
        self, unseen: tuple[np.ndarray, np.ndarray | None], marks: Marks, sick: np.ndarray, fold_of: np.ndarray,
        fold_count: int, patients: int, check: Check,
    ) -> None:  # fmt: skip
        """Estimates scales, rule and bank. `unseen` holds normals that the base was not fitted on, with regions."""
        self.names = marks.names
        self.bank = self._bank(marks, sick)
        held_out = self._held_out(*unseen, check)
        cells = held_out.maps if held_out.roi is None else held_out.maps[roi_at(held_out.roi, held_out.maps.shape[1:])]
        usual, most = (float(np.quantile(cells, q)) for q in (0.99, 0.999))
        base = {f"base{name}": Scale.of(scores) for name, scores in held_out.scores.items()}
        self.scales = Scales(usual, max(most - usual, 1e-6), **base)
        self.rule = self._rule(marks, sick, fold_of, fold_count, patients, held_out, check)
        if self.tuned:
            self.decoders = self.decoders[-1:]  # keeps only the encoder trained on all marks, to save memory
        maps = self._joined(held_out.logits, held_out.maps, self.rule.weight)
        pooled = {f"joined{n}": Scale.of(pooled_odds(maps, held_out.roi if n else None)) for n in held_out.scores}
        self.scales = self.scales.replace(**pooled)

    def _held_out(self, images: np.ndarray, roi: np.ndarray | None, check: Check) -> HeldOut:
        blocks = []
        for x, r in _blocks(images, roi, check):
            base = self._base(x, r)
            scores = {"": self.base.image_score(base, None), "_roi": self.base.image_score(base, r)}
            scoring = self.decoders[-1:] if self.tuned else self.decoders
            blocks.append((self._logits(x, scoring)[:, :, 0].mean(0), base.maps, scores))
        logits, maps = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
        return HeldOut(logits, maps, {n: np.concatenate([block[2][n] for block in blocks]) for n in ("", "_roi")}, roi)

    def _joined(self, logits: np.ndarray, base: np.ndarray, weight: float) -> np.ndarray:
        return np.clip(logits, *LOGIT) + weight * self._standard(base, logits.shape[-1])

    def _peaks(self, held_out: HeldOut, weight: float) -> np.ndarray:
        """Returns the maximum of the combined map of each held-out normal image, `(N,)`."""
        joined = self._joined(held_out.logits, held_out.maps, weight)
        return np.asarray(np.where(counted(joined, held_out.roi), joined, -np.inf).max((1, 2)))

    def _rule(
        self, marks: Marks, sick: np.ndarray, fold_of: np.ndarray, fold_count: int, patients: int, held_out: HeldOut,
        check: Check,
    ) -> Rule:  # fmt: skip
        """Chooses the rule on held-out marks, each predicted by the decoder that was trained without it."""
        counts: dict[str, Any] = {"images": len(sick), "patients": patients, "folds": fold_count}
        safe, learnt_from = Rule(self.config.weights[-1], 1.0, **counts), f"Learnt from {plural(len(sick), 'mark')}"
        if not fold_count:
            words = f"{learnt_from}: too few to hold one out, so the gain is unknown."
            level = level_without(self._peaks(held_out, safe.weight))
            level *= DOUBT / (DOUBT + 1)  # mean with a threshold of 0 from a single mark
            return safe.replace(threshold=level, spot=level, words=words)
        roi = None if marks.roi is None else marks.roi[sick]
        logits, bases, scores = [], [], []
        for x, r in _blocks(marks.images[sick], roi, check):
            logits.append(self._logits(x, self.decoders[:fold_count])[:, :, 0])
            base = self._base(x, r)
            bases.append(self._standard(base.maps, logits[-1].shape[-1]))
            scores.append(self.base.image_score(base, r))
        learnt, base_maps = np.concatenate(logits, 1)[fold_of, np.arange(len(sick))], np.concatenate(bases)
        side = marks.masks.shape[1]
        truth, valid = marks.masks[sick], np.ones(marks.masks[sick].shape, bool) if roi is None else roi > 0
        if marks.ignored is not None:
            # Unfinished cases cannot show that an outline is too large, so they are used only if all are unfinished.
            finished = marks.ignored[sick].mean((1, 2)) < UNKNOWN
            use = finished if finished.any() else np.ones(len(sick), bool)
            valid &= (marks.ignored[sick] == 0) | ~finished.any()
            valid &= use[:, None, None]
        curves, cells = {}, {}  # Dice (levels, m) and combined maps, by weight
        normal_levels, peaks_of_normals = {}, {}  # `level_without` and the quantile USUAL of the maxima, by weight
        for weight in self.config.weights:
            cells[weight] = np.clip(learnt, *LOGIT) + weight * base_maps
            maps = upsample(cells[weight], side)
            curves[weight] = np.stack([overlaps_of((maps > t) & valid, truth, valid)[0] for t in LEVELS])
            peaks = self._peaks(held_out, weight)
            peaks_of_normals[weight] = float(np.quantile(peaks, USUAL))
            normal_levels[weight] = level_without(peaks) if len(sick) < FEW else 0.0
        judged = ~np.isnan(curves[weight][0])
        if not judged.any():
            words = f"{learnt_from}, none of them in the region of interest."
            level = level_without(peaks)  # from the last weight, which is the safest
            return safe.replace(threshold=level, spot=level, words=words)

        def choose(rows: np.ndarray) -> tuple[float, float, float]:
            weight, level, _ = chosen_weight({w: curve[:, rows] for w, curve in curves.items()}, normal_levels)
            maps = upsample(cells[weight][rows], side)
            return weight, level, chosen_spot(maps, level, peaks_of_normals[weight], truth[rows], valid[rows])[0]

        weight, level, spot = choose(np.ones(len(sick), bool))
        name = "" if roi is None else "_roi"
        below = [getattr(self.scales, "base" + name)(x) for x in (held_out.scores[name], np.concatenate(scores))]
        normal = self._joined(held_out.logits, held_out.maps, weight)
        pooled = [pooled_odds(normal, held_out.roi), pooled_odds(cells[weight], roi)]
        score_weight = chosen_score_weight([Scale.of(pooled[0])(x) for x in pooled], below)
        rule = Rule(weight, score_weight, level, spot, **counts)
        before, dice = self._before(marks, sick, valid, held_out, check), np.full(len(sick), np.nan)
        for fold in np.unique(fold_of[judged]):
            rows, training = fold_of == fold, judged & (fold_of != fold)
            weight, level, spot = choose(training) if training.any() else (rule.weight, rule.threshold, rule.spot)
            dice[rows] = spotted(upsample(cells[weight][rows], side), level, spot, truth[rows], valid[rows])
        rows = np.flatnonzero(judged & ~np.isnan(dice))
        return rule.with_gain(tuple((int(sick[i]), float(before[i]), float(dice[i])) for i in rows), marks.patients)

    def _before(self, marks: Marks, sick: np.ndarray, valid: np.ndarray, held_out: HeldOut, check: Check) -> np.ndarray:
        """Computes the Dice of the base's outlines: `marks.outlined`, or outlines at the threshold of normal images."""
        if marks.outlined is not None:
            return overlaps_of(marks.outlined[sick] & valid, marks.masks[sick], valid)[0]
        pixels = Calibration.of(np.zeros(1), held_out.maps, held_out.roi).pixels
        assert pixels is not None  # maps were given
        roi = None if marks.roi is None else marks.roi[sick]
        base = np.concatenate([self._base(x, r).maps for x, r in _blocks(marks.images[sick], roi, check)])
        outlines = (upsample(base, marks.masks.shape[1]) > pixels.threshold) & valid
        return overlaps_of(outlines, marks.masks[sick], valid)[0]

    @torch.inference_mode()
    def _logits(self, images: np.ndarray, decoders: list[Decoder]) -> np.ndarray:
        """Computes logits, `float32 (decoders, B, 1 + kinds, h, w)`, of images, `uint8 (B, S, S, 3)`."""
        images = np.asarray(images)
        logits = self._read_once(images, decoders)
        if self.config.mirror:
            logits = (logits + self._read_once(np.ascontiguousarray(images[:, :, ::-1]), decoders)[..., ::-1]) / 2
        return logits

    def _read_once(self, images: np.ndarray, decoders: list[Decoder]) -> np.ndarray:
        maps = maps_of(self.reader, images, set(STRIDES)) if any(d.encoder is None for d in decoders) else {}
        logits = []
        for decoder in decoders:
            inputs = maps if decoder.encoder is None else maps_of(decoder.encoder, images, set(STRIDES))
            logits.append(decoder(inputs).float().cpu().numpy())
        return np.stack(logits)

    def _base(self, images: np.ndarray, roi: np.ndarray | None) -> Prediction:
        side = self.config.base_side or self.size
        region = None if roi is None else np.asarray(resized(roi, side))
        return self.base.predict(np.asarray(resized(images, side)), roi=region)

    def _standard(self, maps: np.ndarray, side: int) -> np.ndarray:
        """Resizes the base's maps to `side` x `side` cells, standardises and clips them."""
        return np.clip((upsample(maps, side) - self.scales.usual) / self.scales.spread, *BASE)

    @torch.inference_mode()
    def _bank(self, marks: Marks, sick: np.ndarray) -> Tensor:
        """Computes features of annotated lesions, `(m, C)`: maps of strides 16 and 32 averaged over each mask."""
        cells = []
        for start in range(0, len(sick), 32):
            rows = sick[start : start + 32]
            maps = maps_of(self.reader, marks.images[rows], {16, 32})
            weight = F.interpolate(
                torch.from_numpy(marks.masks[rows]).float()[:, None], maps[16].shape[-2:], mode="area"
            )
            cells.append(self._features(maps, weight.to(maps[16].device)))
        return torch.cat(cells)

    def _features(self, maps: dict[int, Tensor], weight: Tensor) -> Tensor:
        """Averages standardised maps with weights, `(B, 1, h, w)`, on the grid of stride 16 to features, `(B, C)`."""
        last, features = self.decoders[-1], []
        weight = weight / weight.sum((2, 3), keepdim=True).clamp_min(1e-9)
        for s in (16, 32):
            x = (maps[s] - getattr(last, f"mean{s}")) / getattr(last, f"deviation{s}")
            x = F.interpolate(x, weight.shape[-2:], mode="bilinear", align_corners=False) if s != 16 else x
            features.append((x * weight).sum((2, 3)))
        return torch.cat(features, 1)

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps of logits, `(N, h, w)`, at stride 4, or returns the base's prediction if nothing was learnt."""
        if not self.decoders:
            return self._base(images, roi)
        self.demand_size(images)
        inputs = at_least_one(images)
        predictions = []
        with remembering(READ):  # because the base may use the same encoder
            for start in range(0, len(inputs), batch):
                rows = np.asarray(inputs[start : start + batch])
                predictions.append(self._read(rows, None if roi is None else roi[start : start + batch]))
        return Prediction.joined(predictions, len(images))

    def _read(self, images: np.ndarray, roi: np.ndarray | None) -> Prediction:
        mean, base = self._logits(images, self.decoders).mean(0), self._base(images, roi)
        logits = mean[:, 0]
        joined = self._joined(logits, base.maps, self.rule.weight)
        maps = maps_of(self.reader, images, {16, 32})
        probable = 1 / (1 + np.exp(-np.clip(joined - self.rule.threshold, -30, 30)))
        focus = F.interpolate(torch.from_numpy(probable).float()[:, None] ** 2, maps[16].shape[-2:], mode="area")
        features = self._features(maps, focus.to(maps[16].device))
        assert self.bank is not None  # because every detector with decoders has a bank
        nearest = torch.cdist(features, self.bank.to(features.device)).amin(1)
        extras = {
            "learnt": logits,
            "unsure": (4 * probable * (1 - probable)).reshape(len(images), -1).mean(1).astype(np.float32),
            "novelty": (nearest / features.shape[1] ** 0.5).cpu().numpy(),
            "base.maps": base.maps,
            **{f"base.{name}": values for name, values in base.extras.items()},
        }
        if self.names:
            probability = torch.from_numpy(mean[:, 1:]).softmax(1).numpy()
            weight = probable[:, None]
            extras["kinds"] = (probability * weight).sum((2, 3)) / weight.sum((2, 3)).clip(1e-9)
        return Prediction(joined.astype(np.float32), extras)

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Computes scores, `(N,)`: pooled odds of the map plus the weighted score of the base, both standardised."""
        if not self.decoders:
            return self.base.image_score(prediction, roi)
        base_extras = {k.removeprefix("base."): v for k, v in prediction.extras.items() if k.startswith("base.")}
        base = Prediction(base_extras.pop("maps"), base_extras)
        small = None if roi is None else np.asarray(resized(roi, self.config.base_side or self.size))
        name = "" if roi is None else "_roi"
        pooled = getattr(self.scales, "joined" + name)(pooled_odds(prediction.maps, roi))
        below = getattr(self.scales, "base" + name)(self.base.image_score(base, small))
        return np.asarray(pooled + self.rule.score_weight * np.clip(below, *SCORE), np.float32)

    def changed(self, prediction: Prediction, maps: np.ndarray) -> Prediction:
        """Returns a copy with new maps. The learnt map changes by the same amount; the base's map stays the same."""
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
    """Function that reports the progress of a fit in stages, and raises Stopped if the fit is asked to stop."""

    def __init__(self, context: FitContext, total: int) -> None:  # total: sum of the durations of all stages
        self.report: Report | None = context.report
        self.should_stop, self.total, self.done = context.should_stop, total, 0

    def __call__(self, title: str, duration: int) -> Check:
        """Starts a stage of relative length `duration`, and returns the function that reports the stage's progress."""
        before = self.done
        self.done += duration

        def check(fraction: float = 0.0) -> None:
            if self.should_stop is not None and self.should_stop():
                raise Stopped("learning was stopped; the next fit starts from the beginning")
            if self.report is not None:
                step = int(100 * (before + duration * min(fraction, 1.0)))
                self.report({"step": step, "steps": 100 * self.total, "message": title})

        check()
        return check


def unseen_normals(base: Detector, count: int, seed: int, patients: np.ndarray | None) -> np.ndarray:
    """Returns the indices of normal images that the base was not fitted on, or of a random sample if unknown."""
    fitted_rows = getattr(base, "kept", None)
    if isinstance(fitted_rows, np.ndarray) and len(fitted_rows) < count and fitted_rows.max() < count:
        return np.setdiff1d(np.arange(count), fitted_rows)
    return leave_out(count, max(2, round(UNSEEN * count)), seed, patients)[1]


Cases = tuple[tuple[int, float, float], ...]  # type of `Rule.cases`


def better(tries: list[Cases]) -> int:
    """Returns the index of the preferred variant in `tries`: a later one unless its mean Dice is lower by LOST or more.

    Later variants are preferred because fine-tuning gained more on other images than on held-out annotated images.
    """
    best = 0
    for i, cases in enumerate(tries):
        if cases and np.mean([c[2] for c in cases]) > np.mean([c[2] for c in tries[best]]) - LOST:
            best = i
    return best


def by_others(tries: list[Cases], folds: list[int]) -> Cases:
    """Returns each case's result in the variant that `better` prefers on other folds. `folds` is each case's fold."""
    cases_by_others = []
    for i, fold in enumerate(folds):
        other_folds = [tuple(c for c, f in zip(cases, folds, strict=True) if f != fold) for cases in tries]
        cases_by_others.append(tries[better(other_folds) if other_folds[0] else 0][i])
    return tuple(cases_by_others)


def level_without(peaks: np.ndarray) -> float:
    """Computes the threshold of outlines from normal images alone: the median of the maxima of their maps, at most 0.

    `peaks`, `(n,)`, are these maxima. After training on few annotated images, logits are hardly ever positive on other
    images, so a threshold of 0 would outline nothing.
    """
    return min(float(np.quantile(peaks, HALF)), 0.0)


def chosen_weight(
    curves: dict[float, np.ndarray], normal_levels: dict[float, float]
) -> tuple[float, float, np.ndarray]:
    """Chooses the weight of the base's map and the threshold of outlines on held-out annotated images.

    For each weight, the thresholds with nearly the best Dice are averaged. This mean is then averaged with the
    threshold in `normal_levels`, which counts as much as DOUBT images. The largest weight with a mean Dice within LOST
    of the best is chosen.

    Args:
        curves: Dice of m images at each threshold in LEVELS, `(levels, m)`, for each weight.
        normal_levels: Threshold from normal images alone, for each weight.

    Returns:
        The weight, the threshold, and the Dice at this threshold, `(m,)`.
    """
    best: dict[float, tuple[float, np.ndarray]] = {}
    for weight, curve in curves.items():
        mean = np.nanmean(curve, 1)
        near = LEVELS[mean >= PLATEAU * mean.max()]
        count = int((~np.isnan(curve[0])).sum())
        level = float((near.mean() * count + normal_levels[weight] * DOUBT) / (count + DOUBT))
        best[weight] = level, curve[int(np.abs(LEVELS - level).argmin())]
    means = {weight: float(np.nanmean(dice)) for weight, (_, dice) in best.items()}
    weight = max(w for w, mean in means.items() if mean >= max(means.values()) - LOST)
    return weight, *best[weight]


def chosen_spot(
    maps: np.ndarray, level: float, most: float, truth: np.ndarray, valid: np.ndarray
) -> tuple[float, np.ndarray]:
    """Chooses the peak that each outlined region must exceed, from combined maps of annotated images, `(m, S, S)`.

    Candidates rise from the threshold `level` until they reach `most`, which suffices for normal images. The chosen
    peak lies half-way from `level` to the highest candidate that costs at most FAINT of the mean Dice, because few
    images do not show at which peak the first lesion is lost. Returns the peak and the Dice at this peak, `(m,)`.
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
    """Computes the Dice, `(m,)`, of outlines around the regions of `maps` above `level` whose peak exceeds `spot`."""
    inside = (maps > level) & valid
    outlined = np.stack(
        [regions_containing(region, region & (heat > spot)) for region, heat in zip(inside, maps, strict=True)]
    )
    return np.asarray(overlaps_of(outlined, truth, valid)[0])


def _blocks(images: np.ndarray, roi: np.ndarray | None, check: Check) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    for start in range(0, len(images), 32):
        check(start / len(images))
        yield np.asarray(images[start : start + 32]), None if roi is None else roi[start : start + 32]


def chosen_score_weight(pooled: list[np.ndarray], base: list[np.ndarray]) -> float:
    """Returns the entry of SCORE_WEIGHTS with the highest AUROC (rounded to 0.001), or the largest of tied entries.

    `pooled` and `base` are standardised scores, each first of n held-out normals, then of m held-out annotated images.
    """
    labels = np.repeat([0, 1], [len(x) for x in pooled])
    learnt, base_scores = (np.concatenate(x) for x in (pooled, base))
    aurocs = {w: auroc(learnt + w * np.clip(base_scores, *SCORE), labels) or 0.0 for w in SCORE_WEIGHTS}
    return max(aurocs, key=lambda w: (round(aurocs[w], 3), w))


def pooled_odds(maps: np.ndarray, roi: np.ndarray | None) -> np.ndarray:
    """Computes the logarithm of the mean odds of a lesion, `(N,)`, from logit maps, `(N, h, w)`, inside `roi` if given.

    Both small regions with high logits and large ones with lower logits contribute, without a parameter for their size.
    """
    inside = counted(maps, roi)
    cells = np.where(inside, maps, -np.inf).reshape(len(maps), -1).astype(np.float64)
    return np.asarray(np.logaddexp.reduce(cells, 1) - np.log(inside.sum((1, 2))))


def _interval(gain: np.ndarray, patients: np.ndarray | None) -> tuple[float, float] | None:
    """Computes the 95 % bootstrap interval of the mean gain over patients, or None for fewer than 3 patients."""
    owners = np.arange(len(gain)) if patients is None else np.unique(patients, return_inverse=True)[1]
    if owners.max() < 2:
        return None
    return bootstrap.interval_of_mean(gain, owners)


def _words(rule: Rule) -> str:
    assert rule.difference is not None
    where = f"In cross-validation on {plural(len(rule.cases), 'marked case')}"
    if rule.interval is None:
        return f"{where}, Dice is {rule.dice:.2f} instead of {rule.base_dice:.2f}; too few cases for an interval."
    low, high = rule.interval
    if low <= 0 <= high:
        figures = f"{rule.difference:+.2f} (95 %: {low:+.2f} to {high:+.2f})".replace("-", "−")
        return f"{where}, Dice does not clearly change: {figures}."
    least, most = sorted((abs(low), abs(high)))
    word = "better" if rule.difference > 0 else "worse"
    return f"{where}, Dice is {word} by {abs(rule.difference):.2f} (95 %: {least:.2f} to {most:.2f})."
