"""Base of the objectives (pre-training methods), which make views of normal images and compute a loss on them.

    @OBJECTIVES.register("pmsacl", title="PMSACL")
    class PMSACL(Objective): ...

A step first makes views, then computes the features of all views, and then the loss, so that the loop treats all
objectives alike. An objective also holds the heads that are used in training only (f_beta, f_gamma).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.backbones.encoder import ClassHead, Encoder
from core.engine.objectives.config import PretrainConfig


@dataclass
class Views:
    """The input of a step: M images, of which the first V are weak views; other kinds may follow.

    images: float32 (M, 3, S, S). labels: (V,), class of each view. partners: (V,), index of the other view of the same
    image. strong: (Q,), classes of images[V:V+Q], which are strongly augmented without a weak view; None without such
    images. places: (P,), relative position of each pair of patches, for l_pos, or None; the last 2 P images are the
    first patches of all pairs, then the second patches.
    """

    images: Tensor
    labels: Tensor
    partners: Tensor
    places: Tensor | None = None
    strong: Tensor | None = None

    @property
    def classed(self) -> tuple[slice, Tensor]:
        """The slice of images for l_ctr and l_aug (the strong images if any, else the weak views) and their classes."""
        count = len(self.labels)
        if self.strong is None:
            return slice(count), self.labels
        return slice(count, count + len(self.strong)), self.strong


@dataclass
class Outcome:
    """The loss of a step, and detached values for reports.

    loss: float32 scalar to minimise. terms: unweighted terms by name (l_ctr, l_con, l_aug, l_pos, l_var). z: (V, D),
    projections of the views. logits: (Q or V, k+1), the class head's logits for `Views.classed`; None without a class
    head. h: (M, F), the backbone's features of all images, set by the step.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    z: Tensor
    logits: Tensor | None = None
    h: Tensor = field(default_factory=lambda: torch.zeros(1, 1))


Terms = dict[str, tuple[float, Tensor]]  # weight and value of each term of the loss, by name


def outcome_of(terms: Terms, z: Tensor, logits: Tensor | None = None) -> Outcome:
    """Returns an outcome whose loss is the weighted sum of `terms`, with z and logits detached; see `Outcome`."""
    total = torch.stack([weight * term for weight, term in terms.values()]).sum()
    detached = {name: term.detach() for name, (_, term) in terms.items()}
    return Outcome(total, detached, z.float().detach(), None if logits is None else logits.detach())


class Objective(nn.Module, abc.ABC):
    """Base of the objectives in OBJECTIVES."""

    uses_centres: ClassVar[bool] = False
    uses_projection: ClassVar[bool] = True  # whether the loss depends on z
    classes: int  # k+1

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.classes = config.k + 1

    @abc.abstractmethod
    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        """Makes the views of a step from normal images x (B, 3, S, S) in [0, 1].

        generator: a CPU generator for all random draws. roi: (B, S, S), 1 inside, or None for the whole image.
        """

    @abc.abstractmethod
    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        """Computes the loss from the backbone features h (M, F) and projections z (M, D) of all `views.images`.

        centres: (k+1, D), or None if the objective does not use them.
        """

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        """Sets another study's images (M, 3, S, S) and roi for the donor `foreign`. ValueError if not supported."""
        raise ValueError(f"{type(self).__name__} cuts no lesions from another study")

    def paste_marked(self, lesions: MarkedLesions) -> None:
        """Sets the lesions that readers annotated, for the donor `marked`. Raises ValueError if not supported."""
        raise ValueError(f"{type(self).__name__} pastes no marked lesions")

    def classify(self, h: Tensor, z: Tensor) -> Tensor | None:
        """Computes the logits (M, k+1) of the class head from h (M, F) or z (M, D); None without a class head."""
        return None

    def class_head(self) -> ClassHead | None:
        """Returns a copy of the class head, which classifies A_0 to A_k, to save with the encoder; None without one."""
        return None

    @abc.abstractmethod
    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Makes one view per image and class, to estimate centres: (B (k+1), 3, S', S'), and labels (B (k+1),).

        weak: whether a weak augmentation follows the strong augmentation.
        """
