"""CutPaste (Li et al. 2021, "CutPaste: Self-Supervised Learning for Anomaly Detection and Localization").

A network learns to classify three classes: the image, CutPaste of it, CutPaste-Scar of it (3-way, Sec. 2.3). Then a
Gaussian density is laid over the features of normal images; an image's score is its negative logarithm up to constants,
the Mahalanobis distance. The map is Grad-CAM of that distance (Sec. 4.2 of the paper shows it for whole images). Open
and chosen here: one hidden layer in the head; the covariance is shrunk, for few images have no full one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.backbones.config import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.detectors._learnt import Learnt, LearntConfig, NetTraining, descend
from core.engine.detectors.base import Prediction
from core.engine.detectors.cutpaste.patches import cut_paste, cut_paste_scar
from core.engine.detectors.mahalanobis import Normal, Scatter
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch
from core.engine.training.schedule import set_rate, warm_cosine

CLASSES = 3


@dataclass(frozen=True)
class CutPasteConfig(LearntConfig):
    """momentum, weight_decay: of SGD (0.9 and 3e-5), its rate falling along a cosine. latent: width of the head."""

    steps: int = 65_536
    lr: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 3e-5
    latent: int = 512
    sigma: float = 4.0


class CutPasteNet(nn.Module):
    def __init__(self, encoder: Encoder, hidden: int) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(True)
        self.encoder.head.requires_grad_(False)  # the projection has no part in it
        layers = [nn.Linear(encoder.features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True)]
        self.head = nn.Sequential(*layers, nn.Linear(hidden, CLASSES))

    def maps(self, x: Tensor) -> Tensor:
        """(B, 3, S, S) -> the coarsest maps (B, F, h, w)."""
        return self.encoder.maps(x, STRIDES[-1:])[STRIDES[-1]]


class CutPasteTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        c, learnt = self.config, [p for p in self.net.parameters() if p.requires_grad]
        return {"optimiser": torch.optim.SGD(learnt, c.lr, c.momentum, weight_decay=c.weight_decay)}

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        shown = torch.cat([x, cut_paste(x, draws), cut_paste_scar(x, draws)])
        labels = torch.arange(CLASSES, device=x.device).repeat_interleave(len(x))
        logits = self.net.head(self.net.maps(shown).mean((2, 3)))
        loss = F.cross_entropy(logits, labels)
        set_rate(self.optimisers["optimiser"], self.config.lr * warm_cosine(self.step, self.steps, 0.02, 0.0))
        descend(self.optimisers["optimiser"], loss)
        return {"loss": loss, "accuracy": (logits.argmax(1) == labels).float().mean()}


@DETECTORS.register("cutpaste", title="CutPaste", section="Table detection; Li et al. 2021")
class CutPaste(Learnt):
    """Score: Mahalanobis distance of the features from those of the normal images."""

    name = "cutpaste"
    Config = CutPasteConfig
    Training = CutPasteTraining
    takes_encoder = True
    presets = {"paper": CutPasteConfig(), "quick": CutPasteConfig(steps=200, batch=16, lr=0.01, latent=128)}

    @classmethod
    def build(cls, encoder: Encoder, config: CutPasteConfig, size: int) -> nn.Module:
        return CutPasteNet(encoder, config.latent)

    @torch.no_grad()
    def settle(self, images: np.ndarray) -> dict[str, Tensor]:
        """`mean` (F,) and `whitening` (F, F) of the normal images' features."""
        scatter = Scatter()
        for start in range(0, len(images), self.config.batch):
            x = to_batch(images[start : start + self.config.batch], self.device)
            scatter.add(self.net.maps(x).mean((2, 3)))
        normal = scatter.normal()
        return {"mean": normal.mean, "whitening": normal.whitening}

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        maps = self.net.maps(x)
        normal = Normal(self.normals["mean"], self.normals["whitening"])
        features = maps.mean((2, 3))
        return {"maps": grad_cam(maps, features, normal), "distance": normal.distance(features)}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,), of the whole image always."""
        score: np.ndarray = prediction.extras["distance"]
        return score


def grad_cam(maps: Tensor, features: Tensor, normal: Normal) -> Tensor:
    """Grad-CAM of half the squared distance: relu of the maps weighted by its gradient, averaged over places.

    maps (B, F, h, w), features (B, F) their mean. The gradient by a feature is the precision times its distance from
    the mean; each place has 1 / (h w) of it. Returns (B, h, w).
    """
    slope = (features - normal.mean) @ normal.whitening.T @ normal.whitening
    weights = slope / (maps.shape[2] * maps.shape[3])
    return torch.einsum("bf,bfhw->bhw", weights, maps).relu()
