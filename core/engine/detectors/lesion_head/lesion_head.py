"""The lesion head, a detector made for PMSACL and trained to find synthetic lesions pasted into normal images.

The paper plans "a new anomaly detector that suits better the characteristics of our PMSACL pre-training" (Sec.
Conclusion). This is one such detector. In one forward pass, a top-down decoder predicts how likely each cell is part of
a lesion, a class head predicts the strong augmentation A_n of the image, and the image's features yield distances from
the frozen centres. The score is one of several summaries of these outputs, or their combination. It is chosen on
held-out normal images with lesions of held-out families; no test image is used.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder
from core.engine.calibration.heatmap import masked_maps
from core.engine.calibration.scale import leave_out
from core.engine.config import Config
from core.engine.detectors.base import FitContext, ImageDetector
from core.engine.detectors.lesion_head.config import LESION_PRESETS, LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.synth import Pairs, SyntheticValidation
from core.engine.detectors.lesion_head.train import train
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.engine.tensors import autocast, pick_device, to_batch
from core.engine.training.base import CENTRES, fingerprint, generator

_CENTRE_IMAGES = 64  # number of images from which missing class centres are estimated


@DETECTORS.register("lesion-head", title="Lesion head", section="Sec. Conclusion: a detector suited to PMSACL")
class LesionHead(ImageDetector):
    """Lesion head. Its maps are lesion logits at half the image's size, and a logit of 0 is a probability of 0.5."""

    name = "lesion-head"
    Config = LesionHeadConfig
    presets = LESION_PRESETS

    def __init__(
        self, net: LesionNet, config: LesionHeadConfig, rule: ScoreRule, device: torch.device, fitted_on: str = ""
    ) -> None:
        super().__init__()
        self.net = net.to(device).to(memory_format=torch.channels_last).eval()
        self.config, self.rule, self.fitted_on = config, rule, fitted_on

    @classmethod
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: LesionHeadConfig, context: FitContext = FitContext()
    ) -> Self:
        """Trains a head on normal images, `uint8 (N, S, S, 3)`. The encoder is copied and not changed.

        Raises ValueError for fewer than 8 images, Stopped if `context.should_stop` returns True, and Diverged if the
        loss is not finite.
        """
        if len(images) < 8:
            raise ValueError(f"the lesion head needs at least 8 normal images, not {len(images)}")
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

        net = train(net, fitted_images, config, training_context.replace(device=device), source)
        head = cls(net, config, ScoreRule(), device, source)
        if len(held_out_rows):
            held_out = rows_of(images, held_out_rows), context.of(held_out_rows).roi
            head.rule = head._choose(SyntheticValidation.draw(*held_out, config))
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
        """Returns class centres, `(k + 1, D)`, from pre-training if saved, else the means of f_theta over each A_n."""
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

    def _choose(self, data: SyntheticValidation) -> ScoreRule:
        """Chooses the score rule on held-out normal images, with and without lesions of the held-out families."""
        prediction = self.predict(data.images)
        threshold = float(np.quantile(prediction.maps[: data.normals], 0.98))
        roi = None if data.roi is None else torch.from_numpy(data.roi)
        by_name = summaries(SUMMARIES, prediction.values(), roi, threshold)
        use = data.use
        values = {name: value.numpy()[use] for name, value in by_name.items()}
        return choose_rule(values, data.labels[use], threshold, self.config.seed)

    def read(self, x: Tensor) -> dict[str, Tensor]:
        """Computes the heat maps and further outputs by name for images x in [0, 1], `(B, 3, S, S)`.

        The outputs are `maps`, `(B, S/2, S/2)`; `classes`, `(B, k + 1)`, the probabilities of A_0 to A_k; `distances`,
        `(B, k + 1)`, from each class centre; and `margin`, `(B,)`, the distance from c_0 minus the distance from the
        nearest other centre.
        """
        with autocast(self.device, self.config.autocast):
            logits, classes, features = self.net(x)
        distances = (features.float()[:, None] - self.net.centres).square().sum(2).sqrt()
        margin = distances[:, 0] - distances[:, 1:].amin(1)
        return {"maps": logits.float(), "classes": classes.float().softmax(1), "distances": distances, "margin": margin}

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes the scores, `(B,)`, by the rule that the fit chose."""
        score: Tensor = self.rule(summaries(self.rule.terms, values, roi, self.rule.threshold))
        return score

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
    """Returns a fingerprint of the encoder, images and regions of interest, on which the result of a fit depends.

    Class centres are included only if pre-training saved them. Otherwise they are computed from encoder and images.
    """
    centres = getattr(encoder, "centres", None)
    return fingerprint(images, roi, encoder.state_dict(), None if centres is None else {"centres": centres})


TOP = {"top 0.5%": 0.005, "top 2.0%": 0.02, "top 5.0%": 0.05}  # fractions of an image's cells
NOT_FROM_MAP = ("class", "centres")  # summaries that do not come from the map
SUMMARIES = (*TOP, "area", "largest component", *NOT_FROM_MAP)
_CLEARLY = 0.05  # gain in AUROC that a rule other than a summary of the map needs
_FEW = 5  # minimum number of images of each label


def summaries(
    names: tuple[str, ...], values: dict[str, Tensor], roi: Tensor | None, threshold: float
) -> dict[str, Tensor]:
    """Computes summaries (candidate scores) of B images by name, each `(B,)`. Larger values are more abnormal.

    Args:
        names: Summaries to compute, names in SUMMARIES.
        values: Outputs of `LesionHead.read`.
        roi: Regions of interest, `(B, S, S)`, 1 inside, or None.
        threshold: Logit above which a cell counts as part of a lesion.
    """
    inside = masked_maps(values["maps"], roi)
    return {name: _summary(name, inside, values, threshold) for name in names}


def _summary(name: str, inside: Tensor, values: dict[str, Tensor], threshold: float) -> Tensor:
    if name in TOP:
        cells = inside.flatten(1)
        return cells.topk(max(1, round(TOP[name] * cells.shape[1])), 1).values.mean(1)
    if name == "area":
        return (inside > threshold).flatten(1).sum(1).float().log1p()
    if name == "largest component":
        return largest_component(inside > threshold).log1p()
    if name == "class":
        normal = values["classes"][:, 0].clamp(1e-6, 1 - 1e-6)
        return ((1 - normal) / normal).log()
    return values["margin"]


def largest_component(above: Tensor) -> Tensor:
    """Counts the cells of the largest 8-connected component of each mask, `bool (B, h, w)`. Returns `float (B,)`."""
    if torch.compiler.is_exporting():
        return unrolled_component(above)
    figures = (cv2.connectedComponentsWithStats(a, connectivity=8)[2] for a in above.byte().numpy())
    return torch.tensor([float(stats[1:, cv2.CC_STAT_AREA].max(initial=0)) for stats in figures])


def unrolled_component(above: Tensor) -> Tensor:
    """Computes `largest_component` with operations that ONNX supports.

    Each cell is labelled with the number of a root cell, initially its own. Each round raises a root's label to the
    highest label next to its cells, then follows the roots twice (Zhang, Azad, Hu 2020). After about log2(n) rounds,
    all n cells of a component have the same label. Rounds are unrolled, because not every runtime supports loops.
    """
    height, width = above.shape[1], above.shape[2]
    cells = height * width
    number = torch.arange(1, cells + 1).view(1, height, width) * above.long()  # 0 outside components
    label = F.pad(number.flatten(1), (1, 0))  # (B, 1 + cells), indexed by number
    for _ in range(math.ceil(math.log2(cells)) + 2):
        plane = label[:, 1:].reshape(-1, 1, height, width).float()
        highest = F.max_pool2d(plane, 3, 1, 1).flatten(1).long() * above.flatten(1).long()
        nearby = F.pad(highest, (1, 0))
        label = label.scatter_reduce(1, label, nearby, "amax").maximum(nearby)
        label = label.gather(1, label)
        label = label.gather(1, label)
    sizes = torch.zeros_like(label, dtype=torch.float32)
    sizes = sizes.scatter_add(1, label, F.pad(above.flatten(1).float(), (1, 0)))
    return sizes[:, 1:].amax(1)


def choose_rule(values: dict[str, np.ndarray], labels: np.ndarray, threshold: float, seed: int = 0) -> ScoreRule:
    """Chooses the rule by which images are scored, usually the heat-map summary that has the highest AUROC.

    A score from the class head or the class centres, or a logistic combination of all summaries, is chosen only if its
    AUROC is higher by more than `_CLEARLY`, for two reasons: readers can check a score on the map from which it is
    computed, and with a few dozen images the standard error of the AUROC is about 0.03. The combination is evaluated by
    cross-validation. If one of the labels has fewer than `_FEW` images, the default rule is used.

    Args:
        values: Summaries of validation images by name, each `(N,)`.
        labels: Label of each image, `(N,)`, 1 if a pasted lesion is visible and 0 otherwise.
        threshold: Logit above which a cell counts as part of a lesion.
        seed: Seed of the folds.
    """
    if np.bincount(labels, minlength=2).min() < _FEW:
        return ScoreRule(threshold=threshold)
    from sklearn.metrics import roc_auc_score  # imported here and below because scikit-learn takes seconds to load
    from sklearn.model_selection import StratifiedKFold

    auroc = {name: float(roc_auc_score(labels, v)) for name, v in values.items()}
    names = tuple(values)
    x = np.stack([values[n] for n in names], 1)
    combined = np.zeros(len(x))
    for training_rows, test_rows in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, labels):
        weights, bias = _logistic(x[training_rows], labels[training_rows])
        combined[test_rows] = x[test_rows] @ weights + bias
    auroc["combined"] = float(roc_auc_score(labels, combined))
    from_map = max((n for n in names if n not in NOT_FROM_MAP), key=lambda name: auroc[name])
    best = max(auroc, key=lambda name: auroc[name])
    if best == from_map or auroc[best] <= auroc[from_map] + _CLEARLY:
        return ScoreRule(from_map, (from_map,), (1.0,), 0.0, threshold, auroc)
    if best != "combined":
        return ScoreRule(best, (best,), (1.0,), 0.0, threshold, auroc)
    weights, bias = _logistic(x, labels)
    return ScoreRule("combined", names, tuple(map(float, weights)), float(bias), threshold, auroc)


def _logistic(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns weights, `(D,)`, and bias for raw values x, `(N, D)`, from a fit on standardised values."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(x)
    model = LogisticRegression(C=0.1).fit(scaler.transform(x), y)
    weights = model.coef_[0] / scaler.scale_
    return weights, float(model.intercept_[0] - weights @ scaler.mean_)


@dataclass(frozen=True)
class ScoreRule(Config):
    """Rule by which images are scored, a weighted sum of summaries plus a bias, chosen in the fit."""

    name: str = "top 2.0%"
    terms: tuple[str, ...] = ("top 2.0%",)  # names of the summaries
    weights: tuple[float, ...] = (1.0,)  # weights of the summaries
    bias: float = 0.0
    threshold: float = 0.0  # logit above which a cell counts as part of a lesion
    auroc: dict[str, Any] = field(default_factory=dict)  # AUROC of every candidate rule on validation data

    def __call__(self, summaries: dict[str, Any]) -> Any:
        """Computes scores, `(N,)`, from summaries by name, each a tensor or array of the shape `(N,)`."""
        return sum(w * summaries[t] for t, w in zip(self.terms, self.weights, strict=True)) + self.bias
