"""The lesion head: a detector made for PMSACL, trained to find the lesions that MedMix pastes into normal images.

The paper plans "a new anomaly detector that suits better the characteristics of our PMSACL pre-training"
(Sec. Conclusion). This is one. A top-down decoder predicts for each cell how likely it is part of a lesion, a class
head predicts the A_n of the image, and the features yield its distances from the frozen centres, all in one forward
pass. The score is one of several summaries of an image, chosen on held-out normal images with lesions of held-out
families; no test image is used.
"""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import counted, masked_maps
from core.engine.calibration.scale import leave_out
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Prediction, at_least_one
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.synth import Pairs, SyntheticValidation
from core.engine.detectors.lesion_head.train import train
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.engine.tensors import autocast, pick_device, to_batch
from core.engine.training.base import CENTRES, fingerprint, generator

_CENTRE_IMAGES = 64


@DETECTORS.register("lesion-head", title="Lesion head", section="Sec. Conclusion: a detector suited to PMSACL")
class LesionHead(Detector):
    """The lesion head. Its maps are lesion logits at half the image's size; 0 is a probability of one half."""

    name = "lesion-head"
    Config = LesionHeadConfig
    presets = LESION_PRESETS

    def __init__(
        self, net: LesionNet, config: LesionHeadConfig, rule: ScoreRule, device: torch.device, fitted_on: str = ""
    ) -> None:
        """fitted_on: fingerprint of the encoder and the images of the fit; "" if unknown."""
        super().__init__()
        self.net = net.to(device).to(memory_format=torch.channels_last).eval()
        self.config, self.rule, self.fitted_on = config, rule, fitted_on

    @property
    def device(self) -> torch.device:
        return self.net.centres.device

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: LesionHeadConfig, context: FitContext = FitContext()
    ) -> Self:
        """Trains a head on normal images uint8 (N, S, S, 3). The encoder is copied, not changed.

        Raises ValueError for fewer than 8 images.
        """
        if len(images) < 8:
            raise ValueError(f"the lesion head needs at least 8 normal images; there are {len(images)}")
        device, roi = pick_device(str(context.device)), context.roi
        least = max(2, round(config.validation * len(images))) if config.validation else 0
        fitted_rows, held_out_rows = leave_out(len(images), least, config.seed, context.patients)
        training_context = context.of(fitted_rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            net = _network(copy.deepcopy(encoder), config)
        net.encoder.requires_grad_(True)
        fitted_images = rows_of(images, fitted_rows)
        net.centres.copy_(cls._centres(encoder, fitted_images, training_context.roi, config, device))
        if net.distances is not None:
            distances_context = FitContext(roi=training_context.roi, device=device, should_stop=context.should_stop)
            net.distances.learn(encoder, fitted_images, distances_context)
        source = fitted_on(encoder, images, roi)

        @functools.cache
        def validation_data() -> SyntheticValidation:
            return SyntheticValidation.draw(rows_of(images, held_out_rows), context.of(held_out_rows).roi, config)

        def quality(trained: LesionNet) -> float:
            return cls(trained, config, ScoreRule(), device)._quality(validation_data())

        net = train(
            net,
            fitted_images,
            config,
            training_context.replace(device=device),
            source,
            quality if len(held_out_rows) else None,
        )
        head = cls(net, config, ScoreRule(), device, source)
        if len(held_out_rows):
            head.rule = head._choose(validation_data())
        return head

    @classmethod
    def finished(
        cls, encoder: Encoder, images: np.ndarray, config: LesionHeadConfig, context: FitContext
    ) -> Self | None:
        """Returns the head that an earlier fit with the same arguments saved in the context's folder, or None."""
        if context.folder is None or not (context.folder / f"{cls.name}.json").is_file():
            return None
        head = cls.load(context.folder, context.device)
        same = head.config == config and head.fitted_on == fitted_on(encoder, images, context.roi)
        return head if same else None

    @staticmethod
    def _centres(
        encoder: Encoder, images: np.ndarray, roi: np.ndarray | None, config: LesionHeadConfig, device: torch.device
    ) -> Tensor:
        """Returns class centres (k+1, D), from pre-training if stored there, else the means of f_theta over A_n."""
        frozen = getattr(encoder, "centres", None)
        if frozen is not None and len(frozen) == config.k + 1:
            return frozen.detach().cpu()
        encoder = encoder.to(device).eval()
        pairs, rows = Pairs(config.families, config.k), np.arange(min(len(images), _CENTRE_IMAGES))
        x = to_batch(images[rows], device)
        inside = None if roi is None else torch.from_numpy(np.ascontiguousarray(roi[rows])).to(device)
        draws, means = generator(config.seed, CENTRES), []
        with torch.inference_mode():
            for n in range(config.k + 1):
                pair = pairs(x, inside, draws, counts=torch.full((len(rows),), n))
                means.append(encoder(pair.images).float().mean(0).cpu())
        return torch.stack(means).clone()

    def _quality(self, data: SyntheticValidation) -> float:
        """Computes the mean of image AUROC (default score) and cell AUROC on lesions of the held-out families."""
        from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

        prediction = self.predict(data.images)
        cell_size = data.images.shape[1] // prediction.maps.shape[1]
        truth, counts = data.masks[:, ::cell_size, ::cell_size], counted(prediction.maps, data.roi)
        if len(np.unique(truth[counts])) < 2 or len(np.unique(data.labels[data.use])) < 2:
            return 0.0  # no lesion is visible: the weights of the first check are used
        image = roc_auc_score(data.labels[data.use], self.image_score(prediction, data.roi)[data.use])
        return float(image + roc_auc_score(truth[counts], prediction.maps[counts])) / 2

    def _choose(self, data: SyntheticValidation) -> ScoreRule:
        """Chooses the score rule on held-out normal images, with and without lesions of the held-out families."""
        prediction = self.predict(data.images)
        threshold = float(np.quantile(prediction.maps[: data.normals], 0.98))
        values = self._summaries(prediction, data.roi, threshold)
        use = data.use
        return choose_rule(
            Validation({k: v[use] for k, v in values.items()}, data.labels[use]), threshold, self.config.seed
        )

    def _summaries(self, prediction: Prediction, roi: np.ndarray | None, threshold: float) -> dict[str, np.ndarray]:
        extras = prediction.extras
        return summaries(prediction.maps, extras["classes"], extras["margin"], roi, threshold)

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps float32 (N, S/2, S/2); extras: `classes` (N, k+1), `margin` (N,), `distances` (N, k+1)."""
        inputs, maps, classes, distances = at_least_one(images), [], [], []
        for start in range(0, len(inputs), batch):
            x = to_batch(inputs[start : start + batch], self.device).contiguous(memory_format=torch.channels_last)
            logits, probabilities, features = self._forward(x)
            maps.append(logits.cpu().numpy())
            classes.append(probabilities.cpu().numpy())
            distances.append(torch.cdist(features, self.net.centres).cpu().numpy())
        count, distance = len(images), np.concatenate(distances)[: len(images)]
        extras = {
            "classes": np.concatenate(classes)[:count],
            "distances": distance,
            "margin": distance[:, 0] - distance[:, 1:].min(1),
        }
        return Prediction(np.concatenate(maps)[:count], extras)

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with autocast(self.device, self.config.autocast):
            logits, classes, features = self.net(x)
        return logits.float(), classes.float().softmax(1), features.float()

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Returns the score by the rule chosen in the fit: float32 (N,)."""
        return self.rule(self._summaries(prediction, roi, self.rule.threshold))

    def about(self) -> dict[str, Any]:
        return {"rule": self.rule.to_dict(), "fitted_on": self.fitted_on}

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        net = _network(within["net.encoder"], config)
        if net.distances is not None:
            net.distances.encoder = within.get("net.distances.encoder")
        rule = ScoreRule.from_dict(facts["rule"])
        return cls(net, config, rule, torch.device("cpu"), facts["fitted_on"]).fill(tensors)


def _network(encoder: Encoder, config: LesionHeadConfig) -> LesionNet:
    return LesionNet(encoder, config.width, config.k + 1, config.distances, trained=config.mode != "frozen")


def fitted_on(encoder: Encoder, images: np.ndarray, roi: np.ndarray | None) -> str:
    """Returns the fingerprint of encoder, images and regions of interest, on which a fit depends.

    Centres are included only if pre-training saved them; otherwise they follow from encoder and images.
    """
    centres = getattr(encoder, "centres", None)
    return fingerprint(images, roi, encoder.state_dict(), None if centres is None else {"centres": centres})


TOP = (0.005, 0.02, 0.05)  # shares of an image's cells
NOT_FROM_MAP = ("class", "centres")  # summaries that do not come from the map
_CLEARLY = 0.05  # difference in AUROC
_FEW = 5  # images of one label


def summaries(
    maps: np.ndarray, classes: np.ndarray, margin: np.ndarray, roi: np.ndarray | None, threshold: float
) -> dict[str, np.ndarray]:
    """Computes several summaries of N images, each (N,); larger values are more abnormal.

    Args:
        maps: (N, h, w), lesion logits.
        classes: (N, k+1), probabilities of A_0 to A_k.
        margin: (N,), distance from c_0 minus the distance from the nearest other centre.
        roi: uint8 (N, S, S), 1 inside the region of interest, or None.
        threshold: Logit above which a cell counts as lesion.
    """
    inside = masked_maps(maps, roi)
    cells = np.sort(inside.reshape(len(maps), inside.shape[1] * inside.shape[2]), 1)
    out = {f"top {share:.1%}": cells[:, -max(1, round(share * cells.shape[1])) :].mean(1) for share in TOP}
    above = inside > threshold
    out["area"] = np.log1p(above.sum((1, 2)).astype(np.float64))
    out["largest component"] = np.array([np.log1p(_largest(a)) for a in above])
    odds = np.clip(classes[:, 0], 1e-6, 1 - 1e-6)
    out["class"] = np.log((1 - odds) / odds)
    out["centres"] = margin
    return out


def _largest(above: np.ndarray) -> int:
    _, _, stats, _ = cv2.connectedComponentsWithStats(above.astype(np.uint8), connectivity=8)
    return int(stats[1:, cv2.CC_STAT_AREA].max(initial=0))


@dataclass(frozen=True)
class Validation:
    """Summaries (N,) of validation images, and labels (N,): 1 if a pasted lesion is visible, else 0."""

    values: dict[str, np.ndarray]
    labels: np.ndarray


def choose_rule(data: Validation, threshold: float, seed: int = 0) -> ScoreRule:
    """Chooses the rule by which images are scored: the summary of the map with the best AUROC on validation data.

    The summary of the class head or of the centres, or a logistic combination of all, is chosen only if its AUROC is
    higher by more than `_CLEARLY`: readers can check a score from the map against it, and with some dozens of images
    the AUROC's error is about 0.03. The combination is evaluated by cross-validation. With fewer than `_FEW` images of
    either label the default rule is used.
    """
    if np.bincount(data.labels, minlength=2).min() < _FEW:
        return ScoreRule(threshold=threshold)
    from sklearn.metrics import roc_auc_score  # here, as below: scikit-learn takes seconds to load
    from sklearn.model_selection import StratifiedKFold

    auroc = {name: float(roc_auc_score(data.labels, v)) for name, v in data.values.items()}
    names = tuple(data.values)
    x = np.stack([data.values[n] for n in names], 1)
    combined = np.zeros(len(x))
    for training_rows, test_rows in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, data.labels):
        weights, bias = _logistic(x[training_rows], data.labels[training_rows])
        combined[test_rows] = x[test_rows] @ weights + bias
    auroc["combined"] = float(roc_auc_score(data.labels, combined))
    from_map = max((n for n in names if n not in NOT_FROM_MAP), key=lambda name: auroc[name])
    best = max(auroc, key=lambda name: auroc[name])
    if best == from_map or auroc[best] <= auroc[from_map] + _CLEARLY:
        return ScoreRule(from_map, (from_map,), (1.0,), 0.0, threshold, auroc)
    if best != "combined":
        return ScoreRule(best, (best,), (1.0,), 0.0, threshold, auroc)
    weights, bias = _logistic(x, data.labels)
    return ScoreRule("combined", names, tuple(map(float, weights)), float(bias), threshold, auroc)


def _logistic(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns weights (D,) and bias for raw values x (N, D); the fit standardises them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=0.1).fit(scaler.transform(x), y)
    weights = model.coef_[0] / scaler.scale_
    return weights, float(model.intercept_[0] - weights @ scaler.mean_)


@dataclass(frozen=True)
class ScoreRule(Config):
    """The rule by which images are scored: a weighted sum of summaries, chosen in the fit.

    name: the rule's name. terms, weights, bias: score = sum of weights x summaries + bias. threshold: logit above which
    a cell counts as lesion. auroc: AUROC of every candidate rule on validation data.
    """

    name: str = "top 2.0%"
    terms: tuple[str, ...] = ("top 2.0%",)
    weights: tuple[float, ...] = (1.0,)
    bias: float = 0.0
    threshold: float = 0.0
    auroc: dict[str, Any] = field(default_factory=dict)

    def __call__(self, summaries: dict[str, np.ndarray]) -> np.ndarray:
        """Computes scores float32 (N,) from summaries (N,)."""
        total = np.sum([w * summaries[t] for t, w in zip(self.terms, self.weights, strict=True)], axis=0)
        return np.asarray(total + self.bias, np.float32)
