"""Other pre-training methods that the paper compares PMSACL with (Tables ablation and ablation_ssl).

With the preset `paper`, all methods share the same settings, as the paper states: SimCLR's weak views (`weak.crop`,
`weak.jitter`, `weak.p_blur`) and a single temperature (`tau`). The presets `published-droc`, `published-csi` and
`published-ccd` use the settings of each method's released code. `published-ccd` also departs from the paper's equations
and tables in `strong` (MedMix in the table), in `class_views`, `aug_on` and `learn_head` (Eq. 8), and in `pos_on` (Eq.
9). `core/studio/report/published.py` lists all values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from core.engine.augment.weak import WeakViews
from core.engine.backbones.encoder import Encoder
from core.engine.losses.pmsacl import augmentation_loss, nt_xent, one_way, supcon_loss
from core.engine.objectives.base import Objective, Outcome, Terms, Views, outcome_of
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.pmsacl import PMSACL
from core.engine.objectives.views import TURNS, ClassViews, TurnedViews
from core.engine.registry import OBJECTIVES
from core.engine.tensors import to_device


@OBJECTIVES.register("simclr", title="SimCLR", section="Table ablation_ssl; Chen et al. 2020")
class SimCLR(Objective):
    """SimCLR on normal images: NT-Xent on two weak views per image. The strong augmentation and `k` are not used."""

    contrast = staticmethod(nt_xent)

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        self.classes = 1
        self.weak = WeakViews(config.weak)

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        images = self.weak(x, generator, times=2)
        labels = torch.zeros(len(images), dtype=torch.long, device=x.device)
        return Views(images, labels, torch.arange(len(images), device=x.device).roll(len(x)))

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        labels = torch.zeros(len(x), dtype=torch.long, device=x.device)
        return self.weak(x, generator) if weak else x, labels

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        return outcome_of({"l_con": (self.config.w_con, self.contrast(z, views.partners, self.config.tau))}, z)


@OBJECTIVES.register("supcon", title="SupCon on pseudo classes", section="Table ablation_ssl; Khosla et al. 2020")
class SupCon(ClassViews):
    """SupCon on pseudo classes (Khosla et al. 2020, Eq. 2), with the weight `w_con` and the temperature `tau`.

    Views of the same class attract each other and repel all other views. Khosla et al. use true labels. The PMSACL
    paper uses the index n of the strong augmentation A_n as the label and gives no further details.
    """

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        return outcome_of({"l_con": (self.config.w_con, supcon_loss(z, views.labels, self.config.tau))}, z)


@OBJECTIVES.register("ccd", title="CCD", section="Table ablation; Tian et al. 2021, MICCAI")
class CCD(PMSACL):
    """CCD, on which PMSACL is based (Tian et al. 2021, "Constrained Contrastive Distribution Learning").

    The loss is the sum of three terms, all with weight 1 in CCD: NT-Xent on the weak views of all strongly augmented
    images, l_aug and l_pos. CCD uses no centres and one temperature for all pairs. Each view is attracted by the other
    weak view of its image and repelled by all other views. `strong` is `permutation` as published, or `medmix` for the
    paper's row "CCD with MedMix". Unlike in the released code, labels are aligned with the views.
    """

    uses_centres = False
    always_places = True

    def contrast(self, z: Tensor, views: Views, centres: Tensor | None) -> Terms:
        return {"l_con": (self.config.w_con, nt_xent(z[: len(views.labels)], views.partners, self.config.tau))}


@OBJECTIVES.register("rotnet", title="Rot-Net", section="Table ablation_ssl; Gidaris et al. 2018")
class RotNet(TurnedViews):
    """Rot-Net (Gidaris et al. 2018, Eqs. 2 and 3): cross-entropy over four rotations, with the weight `w_aug`.

    Rotations are classified from the backbone's features. Golan and El-Yaniv (2018) detect anomalies with 72 geometric
    transformations, but Rot-Net in the paper's table is the method with four rotations. The loss does not depend on the
    projection to z, which therefore keeps its initial weights.
    """

    sides = 1
    uses_projection = False

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        logits = self.classify(h, z)
        return outcome_of({"l_aug": (self.config.w_aug, augmentation_loss(logits, views.labels))}, z, logits)


@OBJECTIVES.register("csi", title="CSI", section="Table ablation_ssl; Tack et al. 2020")
class CSI(TurnedViews):
    """CSI (Tack et al. 2020, Eqs. 3 to 5): SimCLR's loss on shifted copies of images, and classification of the shifts.

    Each shifted copy counts as a separate instance. The terms are L_con-SI and L_cls-SI, with the weights `w_con` and
    `w_aug` (1 in CSI). The shifts are the four rotations, which CSI uses for photographs of objects. The PMSACL paper
    does not say which shifts it uses.
    """

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        c, logits = self.config, self.classify(h, z)
        terms = {
            "l_con": (c.w_con, nt_xent(z, views.partners, c.tau)),
            "l_aug": (c.w_aug, augmentation_loss(logits, views.labels)),
        }
        return outcome_of(terms, z, logits)


@OBJECTIVES.register("droc", title="DROC", section="Table ablation_ssl; Sohn et al. 2021")
class DROC(SimCLR):
    """DROC (Sohn et al. 2021, "Learning and Evaluating Representations for Deep One-class Classification").

    Rotated images are treated as additional training images (distribution augmentation): each source image is rotated
    at random, then two weak views are made of it. The loss (`one_way`) contrasts first views only with second views,
    with the weight `w_con` and the temperature `tau`. As for all pre-training methods in the paper, a separate detector
    scores the images, instead of DROC's one-class classifier.
    """

    contrast = staticmethod(one_way)

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        turns = to_device(torch.randint(TURNS, (len(x),), generator=generator), x.device)
        turned = torch.stack([torch.rot90(x, n, (2, 3)) for n in range(TURNS)])
        return super().views(turned[turns, torch.arange(len(x), device=x.device)], generator, roi)
