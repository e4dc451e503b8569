"""PMSACL, the global model: l_ctr + l_PMSACL + l_aug on whole images (Eq. 1; l_pos where `pos_global` asks for it)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.backbones.encoder import ClassHead, Encoder
from core.engine.losses.pmsacl import augmentation_loss, centring_loss, pmsacl_loss, variance_loss
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.views import ClassViews, add_position, draw_pairs, place_head, with_pairs
from core.engine.registry import OBJECTIVES


@OBJECTIVES.register("pmsacl", title="PMSACL (global)", section="Sec. PMSACL pre-training")
class PMSACL(ClassViews):
    """PMSACL on whole images.

    The text keeps l_pos to the local model; Table ablation counts it among a global one's terms (`pos_global`).
    """

    uses_centres = True
    always_places = False  # whether the objective learns l_pos whatever the configuration says

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__(config, encoder)
        # f_beta, one fully connected layer.
        self.classifier = nn.Linear(encoder.config.dim if config.aug_on == "z" else encoder.features, self.classes)
        self.shows_strong = config.class_views == "strong"
        self.place = place_head(config, encoder) if config.pos_global or self.always_places else None

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        views = super().views(x, generator, roi)
        return views if self.place is None else with_pairs(views, x, self.config, generator, roi)

    def classify(self, h: Tensor, z: Tensor) -> Tensor:
        logits: Tensor = self.classifier((z if self.config.aug_on == "z" else h).float())
        return logits

    def class_head(self) -> ClassHead:
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
            head = ClassHead(self.classifier.in_features, self.classes, self.config.aug_on, self.config.size)
        head.linear.load_state_dict(self.classifier.state_dict())
        return head

    def contrast(self, z: Tensor, views: Views, centres: Tensor | None) -> dict[str, Tensor]:
        """Computes l_ctr and l_PMSACL of z (M, D), unweighted."""
        assert centres is not None  # `uses_centres`
        c, own, (classed, classes) = self.config, z[: len(views.labels)], views.classed
        return {
            "l_ctr": centring_loss(z[classed], classes, centres),
            "l_con": pmsacl_loss(
                own, views.labels, views.partners, centres, c.tau, c.alpha, centring=c.centring, positives=c.positives
            ),
        }

    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        c, (classed, classes) = self.config, views.classed
        own = z[: len(views.labels)].float()
        logits = self.classify(h[classed].float(), z[classed].float())
        terms = {**self.contrast(z.float(), views, centres), "l_aug": augmentation_loss(logits, classes)}
        if c.w_var:
            terms["l_var"] = variance_loss(own, views.labels)
        weights = {"l_ctr": c.w_ctr, "l_con": c.w_con, "l_aug": c.w_aug, "l_var": c.w_var}
        loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        shown = {name: term.detach() for name, term in terms.items()}
        outcome = Outcome(loss, shown, own.detach(), logits.detach())
        return outcome if self.place is None else add_position(outcome, self.place, z, views, c)


# PMSACL, the local model: Eq. 1 on 32 x 32 patches, each an instance.


@OBJECTIVES.register("pmsacl-local", title="PMSACL (local patches)", section="Sec. PMSACL pre-training")
class LocalPMSACL(PMSACL):
    """PMSACL on patches: a step draws one pair of neighbouring patches from each image.

    l_pos finds from the plain pair where the second lies (8 neighbours). The first is also the instance that the other
    losses see: it goes through MedMix with the other patches of the minibatch, and through the weak views.
    """

    always_places = True

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        """Cuts patches side by side, and keeps those that lie mostly inside the region of interest."""
        p = self.config.patch
        patches = pool.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(0, 2)
        inside = None
        if roi is not None:
            inside = roi.unfold(1, p, p).unfold(2, p, p).flatten(0, 2)
            mostly_inside = inside.float().mean((1, 2)) >= 0.5
            if bool(mostly_inside.any()):
                patches, inside = patches[mostly_inside], inside[mostly_inside]
        super().cut_from(patches, inside)

    def paste_marked(self, lesions: MarkedLesions) -> None:
        raise ValueError("a patch may be smaller than a marked lesion: choose another donor than 'marked', or pmsacl")

    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        patches, inside, places = draw_pairs(x, self.config, generator, roi)
        views = super(PMSACL, self).views(patches[0], generator, inside)  # the pairs are drawn already
        return replace(views, images=torch.cat([views.images, *patches]), places=places)

    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        patches, inside, _ = draw_pairs(x, self.config, generator, roi)
        return super().samples(patches[0], generator, inside, weak)
