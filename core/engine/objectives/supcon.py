"""SupCon on the pseudo classes of the strong augmentation (Khosla et al. 2020, Eq. 2; Table ablation_ssl)."""

from __future__ import annotations

from torch import Tensor

from core.engine.losses.supcon import supcon_loss
from core.engine.objectives._class_views import ClassViews
from core.engine.objectives.base import Outcome, Views
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("supcon", title="SupCon on pseudo classes", section="Table ablation_ssl; Khosla et al. 2020")
class SupCon(ClassViews):
    """All views of a class A_n attract each other, all others repel; weight w_con, temperature tau.

    Khosla et al. have labels; the paper takes n of A_n for them and says no more of its adaptation.
    """

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        term = supcon_loss(z, views.labels, self.config.tau)
        return Outcome(self.config.w_con * term, {"l_con": term.detach()}, z.float().detach())
