"""The PMSACL objective (Eq. 1): l_ctr + l_PMSACL + l_aug + l_pos, on whole images (global) or on patches (local)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.backbones.encoder import ClassHead, Encoder
from core.engine.losses.pmsacl import augmentation_loss, centring_loss, pmsacl_loss, position_loss, variance_loss
from core.engine.objectives.base import Outcome, Terms, Views, outcome_of
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.views import ClassViews, draw_pairs, patches_of, place_head
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("pmsacl", title="PMSACL (global)", section="Sec. PMSACL pre-training")
class PMSACL(ClassViews):
    """PMSACL objective, for the global model (whole images) or the local model (patches).

    The local model cuts one pair of neighbouring patches out of each image. From the unaugmented pair, a head predicts
    which of the 8 neighbours of the first patch the second patch is (l_pos). The other losses use only the first patch:
    MedMix mixes it with the first patches of other images, and weak views are made of the result. In the paper's text,
    only the local model has l_pos, but Table ablation lists l_pos for a global model (`pos_global`). A global model
    enlarges the patches to the size of its images, so that one pass of the network computes all features.

    Args:
        config: Options of the pre-training.
        encoder: Encoder to train.
        local: Whether to use patches instead of whole images.
    """

    uses_centres = True
    always_places = False  # whether the objective has l_pos regardless of the configuration

    def __init__(self, config: PretrainConfig, encoder: Encoder, local: bool = False) -> None:
        super().__init__(config, encoder)
        self.local = local
        # f_beta is one fully connected layer.
        self.classifier = nn.Linear(encoder.config.dim if config.aug_on == "z" else encoder.features, self.classes)
        self.classifier.requires_grad_(config.learn_head)
        self.shows_strong = config.class_views == "strong"
        self.place = place_head(config, encoder) if local or config.pos_global or self.always_places else None

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        super().cut_from(*(patches_of(pool, roi, self.config.patch) if self.local else (pool, roi)))

    def paste_marked(self, lesions: MarkedLesions) -> None:
        if self.local:
            raise ValueError("a patch may be smaller than an annotated lesion: choose another donor than 'marked'")
        super().paste_marked(lesions)

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        views = None if self.local else super().views(x, generator, roi)
        if self.place is None and views is not None:
            return views
        pairs, inside, positions = draw_pairs(x, self.config, generator, roi)  # (2, B, 3, p, p)
        if views is None:
            views = super().views(pairs[0], generator, inside)
        else:
            side = views.images.shape[2:]
            pairs = torch.stack([F.interpolate(p, side, mode="bilinear", align_corners=False) for p in pairs])
        return replace(views, images=torch.cat([views.images, *pairs]), places=positions)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        if self.local:
            pairs, roi, _ = draw_pairs(x, self.config, generator, roi)
            x = pairs[0]
        return super().samples(x, generator, roi, weak)

    def classify(self, h: Tensor, z: Tensor) -> Tensor:
        logits: Tensor = self.classifier((z if self.config.aug_on == "z" else h).float())
        return logits

    def class_head(self) -> ClassHead:
        head = ClassHead(self.classifier.in_features, self.classes, self.config.aug_on, self.config.size)
        head.linear.load_state_dict(self.classifier.state_dict())
        return head

    def contrast(self, z: Tensor, views: Views, centres: Tensor | None) -> Terms:
        """Returns l_ctr and l_con (l_PMSACL), each with its weight, from z, `(M, D)`. Subclasses use other terms."""
        assert centres is not None  # `uses_centres`
        c, weak, (classed, classes) = self.config, z[: len(views.labels)], views.classed
        variants = {"centring": c.centring, "positives": c.positives}
        return {
            "l_ctr": (c.w_ctr, centring_loss(z[classed], classes, centres)),
            "l_con": (c.w_con, pmsacl_loss(weak, views.labels, views.partners, centres, c.tau, c.alpha, **variants)),
        }

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        c, (classed, classes) = self.config, views.classed
        h, z = h.float(), z.float()
        weak = z[: len(views.labels)]  # the two weak views of each strong image
        logits = self.classify(h[classed], z[classed])
        terms = {**self.contrast(z, views, centres), "l_aug": (c.w_aug, augmentation_loss(logits, classes))}
        if c.w_var:
            terms["l_var"] = (c.w_var, variance_loss(weak, views.labels))
        if self.place is not None and views.places is not None:
            first, second = z[-2 * len(views.places) :].chunk(2)
            pair = torch.cat([first, second], 1) if c.pos_on == "pair" else first - second
            terms["l_pos"] = (c.w_pos, position_loss(self.place(pair), views.places))
        return outcome_of(terms, weak, logits)


@OBJECTIVES.register("pmsacl-local", title="PMSACL (local patches)", section="Sec. PMSACL pre-training")
def local_pmsacl(config: PretrainConfig, encoder: Encoder) -> PMSACL:
    """Creates the objective of PMSACL's local model, whose losses use patches instead of whole images."""
    return PMSACL(config, encoder, local=True)
