"""DROC: contrastive learning over a distribution widened by turns (Sohn et al. 2021, "Learning and Evaluating
Representations for Deep One-class Classification", distribution-augmented contrastive learning)."""

from __future__ import annotations

from torch import Tensor

from core.engine.losses.nt_xent import nt_xent
from core.engine.objectives._turns import TurnedViews
from core.engine.objectives.base import Outcome, Views
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("droc", title="DROC", section="Table ablation_ssl; Sohn et al. 2021")
class DROC(TurnedViews):
    """Each turned copy counts as an instance of its own, in SimCLR's loss; weight w_con, temperature tau.

    Its one-class classifier on the features is left to the detector, as the paper has it for every pre-training.
    """

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        term = nt_xent(z, views.partners, self.config.tau)
        return Outcome(self.config.w_con * term, {"l_con": term.detach()}, z.float().detach())
