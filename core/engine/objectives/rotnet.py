"""Rot-Net: by how many quarters was an image turned? (Gidaris et al. 2018, "Unsupervised Representation Learning by
Predicting Image Rotations", Eqs. 2 and 3; for anomalies Golan and El-Yaniv 2018)."""

from __future__ import annotations

from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.losses.classify import augmentation_loss
from core.engine.objectives._turns import TURNS, TurnedViews
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("rotnet", title="Rot-Net", section="Table ablation_ssl; Gidaris et al. 2018")
class RotNet(TurnedViews):
    """Cross-entropy over four turns, from the backbone's features; weight w_aug.

    Golan and El-Yaniv have 72 geometric transformations; the name in the table is that of the four turns. The
    projection to Z has no part in the loss and keeps its first weights.
    """

    sides = 1
    uses_projection = False

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classifier = nn.Linear(encoder.features, TURNS)

    def classify(self, h: Tensor, z: Tensor) -> Tensor:
        logits: Tensor = self.classifier(h.float())
        return logits

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        logits = self.classify(h, z)
        term = augmentation_loss(logits, views.labels)
        loss = self.config.w_aug * term
        return Outcome(loss, {"l_aug": term.detach()}, z.float().detach(), logits.detach())
