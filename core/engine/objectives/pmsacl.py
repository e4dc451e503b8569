"""PMSACL, the global model: l_ctr + l_PMSACL + l_aug on whole images (Eq. 1; l_pos where `pos_global` asks for it)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.engine.augment.share import Share
from core.engine.backbones.encoder import Encoder
from core.engine.losses.centring import centring_loss
from core.engine.losses.classify import augmentation_loss
from core.engine.losses.contrastive import pmsacl_loss
from core.engine.losses.variance import variance_loss
from core.engine.objectives._class_views import ClassViews
from core.engine.objectives._position import add_position, place_head, with_pairs
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("pmsacl", title="PMSACL (global)", section="Sec. PMSACL pre-training")
class PMSACL(ClassViews):
    """The text keeps l_pos to the local model; Table ablation counts it among a global one's terms (`pos_global`)."""

    uses_centres = True
    always_places = False  # whether the objective learns l_pos whatever the configuration says

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        # f_beta, one fully connected layer.
        self.classifier = nn.Linear(encoder.config.dim if config.aug_on == "z" else encoder.features, self.classes)
        self.place = place_head(config, encoder) if config.pos_global or self.always_places else None

    def views(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, share: Share | None = None
    ) -> Views:
        views = super().views(x, generator, roi, share)
        return views if self.place is None else with_pairs(views, x, self.config, generator, roi, share)

    def classify(self, h: Tensor, z: Tensor) -> Tensor:
        logits: Tensor = self.classifier((z if self.config.aug_on == "z" else h).float())
        return logits

    def contrast(self, z: Tensor, views: Views, centres: Tensor | None) -> dict[str, Tensor]:
        """l_ctr and l_PMSACL of z (V, D), unweighted."""
        assert centres is not None  # `uses_centres`
        c = self.config
        return {
            "l_ctr": centring_loss(z, views.labels, centres),
            "l_con": pmsacl_loss(
                z, views.labels, views.partners, centres, c.tau, c.alpha, centring=c.centring, positives=c.positives
            ),
        }

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        c, count = self.config, len(views.labels)
        own = z[:count].float()
        logits = self.classify(h[:count].float(), own)
        terms = {**self.contrast(own, views, centres), "l_aug": augmentation_loss(logits, views.labels)}
        if c.w_var:
            terms["l_var"] = variance_loss(own, views.labels)
        weights = {"l_ctr": c.w_ctr, "l_con": c.w_con, "l_aug": c.w_aug, "l_var": c.w_var}
        loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        shown = {name: term.detach() for name, term in terms.items()}
        outcome = Outcome(loss, shown, own.detach(), logits.detach())
        return outcome if self.place is None else add_position(outcome, self.place, z, views, c)
