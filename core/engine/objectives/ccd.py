"""CCD, which PMSACL goes on from (Tian et al. 2021, "Constrained Contrastive Distribution Learning")."""

from __future__ import annotations

from torch import Tensor

from core.engine.losses.nt_xent import nt_xent
from core.engine.objectives.base import Views
from core.engine.objectives.pmsacl import PMSACL
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("ccd", title="CCD", section="Table ablation; Tian et al. 2021, MICCAI")
class CCD(PMSACL):
    """The plain contrastive loss over all strongly augmented views, l_aug and l_pos, all weights 1.

    No centres and one temperature for all pairs: each view's positive is its other weak view, all else repels. With
    `strong` = permutation as published, with medmix the paper's row "CCD with MedMix". Labels are aligned with their
    views here, which the released code's are not (READING.md).
    """

    uses_centres = False
    always_places = True

    def contrast(self, z: Tensor, views: Views, centres: Tensor | None) -> dict[str, Tensor]:
        return {"l_con": nt_xent(z, views.partners, self.config.tau)}
