"""Other pre-trainings that the paper compares with (Tables ablation and ablation_ssl).

The preset `paper` uses the same settings for all of them, as the paper says: SimCLR's weak views (`weak.crop`,
`weak.jitter`, `weak.p_blur`) and one temperature (`tau`). The presets `published-droc`, `published-csi` and
`published-ccd` have the released settings. In CCD these also differ from the paper's equations and tables in `strong`
(MedMix in the table), `class_views`, `aug_on` and `learn_head` (Eq. 8), and `pos_on` (Eq. 9).
`core/studio/report/published.py` has every value.
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
    """SimCLR (NT-Xent between two weak views) on normal images. `k` and the strong augmentation are not used."""

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


# SupCon on the pseudo classes of the strong augmentation (Khosla et al. 2020, Eq. 2; Table ablation_ssl).


@OBJECTIVES.register("supcon", title="SupCon on pseudo classes", section="Table ablation_ssl; Khosla et al. 2020")
class SupCon(ClassViews):
    """SupCon on pseudo classes: views of the same class A_n attract each other, all other views repel.

    Weight w_con, temperature tau. Khosla et al. use labels; the paper uses n of A_n instead, without further details.
    """

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        return outcome_of({"l_con": (self.config.w_con, supcon_loss(z, views.labels, self.config.tau))}, z)


# CCD, which PMSACL is based on (Tian et al. 2021, "Constrained Contrastive Distribution Learning").


@OBJECTIVES.register("ccd", title="CCD", section="Table ablation; Tian et al. 2021, MICCAI")
class CCD(PMSACL):
    """CCD: NT-Xent over views of all strongly augmented images, l_aug and l_pos; in CCD all weights are 1.

    CCD has no centres, and one temperature for all pairs: each view is attracted by the other weak view of its image
    and repelled by all others. `strong` is permutation as published, or medmix for the paper's row "CCD with MedMix".
    Labels are aligned with the views, unlike in the released code.
    """

    uses_centres = False
    always_places = True

    def contrast(self, z: Tensor, views: Views, centres: Tensor | None) -> Terms:
        return {"l_con": (self.config.w_con, nt_xent(z[: len(views.labels)], views.partners, self.config.tau))}


# Rot-Net: classification of rotations (Gidaris et al. 2018, "Unsupervised Representation Learning by Predicting Image
# Rotations", Eqs. 2 and 3; for anomaly detection Golan and El-Yaniv 2018).


@OBJECTIVES.register("rotnet", title="Rot-Net", section="Table ablation_ssl; Gidaris et al. 2018")
class RotNet(TurnedViews):
    """Rot-Net: cross-entropy over four rotations, from the backbone's features, with weight w_aug.

    Golan and El-Yaniv use 72 geometric transformations, but the name Rot-Net in the table belongs to the method with
    four rotations. The projection to Z does not affect the loss and keeps its initial weights.
    """

    sides = 1
    uses_projection = False

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        logits = self.classify(h, z)
        return outcome_of({"l_aug": (self.config.w_aug, augmentation_loss(logits, views.labels))}, z, logits)


# CSI: contrast shifted instances, and classify the shifts (Tack et al. 2020, "CSI: Novelty Detection via Contrastive
# Learning on Distributionally Shifted Instances", Eqs. 3 to 5).


@OBJECTIVES.register("csi", title="CSI", section="Table ablation_ssl; Tack et al. 2020")
class CSI(TurnedViews):
    """CSI: SimCLR's loss with each shifted copy as a separate instance, and a classification of the shifts.

    The two terms are L_con-SI and L_cls-SI, with weights w_con and w_aug (1 in CSI). The shifts are the four rotations,
    CSI's choice for objects; the paper does not name the shifts for its images.
    """

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        c, logits = self.config, self.classify(h, z)
        terms = {
            "l_con": (c.w_con, nt_xent(z, views.partners, c.tau)),
            "l_aug": (c.w_aug, augmentation_loss(logits, views.labels)),
        }
        return outcome_of(terms, z, logits)


# DROC: contrastive learning on images and their rotations (Sohn et al. 2021, "Learning and Evaluating Representations
# for Deep One-class Classification", distribution-augmented contrastive learning).


@OBJECTIVES.register("droc", title="DROC", section="Table ablation_ssl; Sohn et al. 2021")
class DROC(SimCLR):
    """DROC: one-way contrastive learning, in which rotated images are additional images of the data set.

    Each source image is rotated at random, then two weak views are made. The loss contrasts first views with second
    views only (`one_way`); weight w_con, temperature tau.

    DROC's one-class classifier on the features is replaced by the detector, as for every pre-training in the paper.
    """

    contrast = staticmethod(one_way)

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        turns = to_device(torch.randint(TURNS, (len(x),), generator=generator), x.device)
        turned = torch.stack([torch.rot90(x, n, (2, 3)) for n in range(TURNS)])
        return super().views(turned[turns, torch.arange(len(x), device=x.device)], generator, roi)
