"""CSI: contrast shifted instances, and classify the shifts (Tack et al. 2020, "CSI: Novelty Detection via Contrastive
Learning on Distributionally Shifted Instances", Eqs. 3 to 5)."""

from __future__ import annotations

from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.losses.classify import augmentation_loss
from core.engine.losses.nt_xent import nt_xent
from core.engine.objectives._turns import TURNS, TurnedViews
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("csi", title="CSI", section="Table ablation_ssl; Tack et al. 2020")
class CSI(TurnedViews):
    """L_con-SI: SimCLR's loss with each shifted copy as an instance of its own; L_cls-SI: which shift. Both weigh 1
    (w_con, w_aug). Shifts are the four turns, CSI's own choice for objects; the paper names none for its images.
    """

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classifier = nn.Linear(encoder.features, TURNS)  # on the backbone's features, as released

    def classify(self, h: Tensor, z: Tensor) -> Tensor:
        logits: Tensor = self.classifier(h.float())
        return logits

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        logits = self.classify(h, z)
        terms = {
            "l_con": nt_xent(z, views.partners, self.config.tau),
            "l_aug": augmentation_loss(logits, views.labels),
        }
        loss = self.config.w_con * terms["l_con"] + self.config.w_aug * terms["l_aug"]
        shown = {name: term.detach() for name, term in terms.items()}
        return Outcome(loss, shown, z.float().detach(), logits.detach())
