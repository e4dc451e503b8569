"""Base class of the objectives (pre-training methods), which make views of normal images and compute a loss on them.

    @OBJECTIVES.register("pmsacl", title="PMSACL")
    class PMSACL(Objective): ...

In each step, the objective makes views, the encoder computes the features of all views, and the objective computes the
loss from these features. An objective also contains the heads that are used only in training, f_beta and f_gamma.
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
    """Input of a training step: M images, of which the first V are weak views.

    images: V weak views, Q strongly augmented images, P first and P second patches, in this order, `(M, 3, S, S)`.
    labels: Class of each weak view, `(V,)`.
    partners: Index of the other weak view of the same image, `(V,)`.
    places: Relative position of the two patches of each pair, `(P,)`, predicted in l_pos. Defaults to None.
    strong: Class of each strongly augmented image, `(Q,)`. Defaults to None.
    """

    images: Tensor
    labels: Tensor
    partners: Tensor
    places: Tensor | None = None
    strong: Tensor | None = None

    @property
    def classed(self) -> tuple[slice, Tensor]:
        """Slice of `images` that l_ctr and l_aug use (`strong` if given, else weak views), and their classes."""
        count = len(self.labels)
        if self.strong is None:
            return slice(count), self.labels
        return slice(count, count + len(self.strong)), self.strong


@dataclass
class Outcome:
    """Loss of a training step, and detached values for progress reports.

    loss: Loss to minimise, a float32 scalar.
    terms: Unweighted terms of the loss by name (l_ctr, l_con, l_aug, l_pos, l_var).
    z: Projections of the weak views, `(V, D)`.
    logits: Class logits `(M, k + 1)` of the M images that `Views.classed` selects, or None without a class head.
    h: Backbone features of all images, `(M, F)`. The training step sets this field.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    z: Tensor
    logits: Tensor | None = None
    h: Tensor = field(default_factory=lambda: torch.zeros(1, 1))


Terms = dict[str, tuple[float, Tensor]]  # weight and value of each term of the loss, by name


def outcome_of(terms: Terms, z: Tensor, logits: Tensor | None = None) -> Outcome:
    """Creates an `Outcome` whose loss is the weighted sum of `terms`. All its other values are detached."""
    total = torch.stack([weight * term for weight, term in terms.values()]).sum()
    detached = {name: term.detach() for name, (_, term) in terms.items()}
    return Outcome(total, detached, z.float().detach(), None if logits is None else logits.detach())


class Objective(nn.Module, abc.ABC):
    """Base class of the objectives, which are registered in OBJECTIVES."""

    uses_centres: ClassVar[bool] = False  # whether the loss depends on class centres
    uses_projection: ClassVar[bool] = True  # whether the loss depends on the projections z
    classes: int  # k + 1

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.classes = config.k + 1

    @abc.abstractmethod
    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        """Makes the views of a training step.

        Args:
            x: Normal images in [0, 1], `(B, 3, S, S)`.
            generator: Random number generator on the CPU, for all random choices.
            roi: Regions of interest, `(B, S, S)`, 1 inside, or None for whole images.
        """

    @abc.abstractmethod
    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        """Computes the loss of a training step.

        Args:
            h: Backbone features of all images of `views`, `(M, F)`.
            z: Projections of all images of `views`, `(M, D)`.
            views: Views of this step.
            centres: Class centres, `(k + 1, D)`, or None if the objective does not use centres.
        """

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        """Sets the images of another study from which lesions are cut. Raises ValueError if no lesions are pasted."""
        raise ValueError(f"{type(self).__name__} cannot paste lesions from another study")

    def paste_marked(self, lesions: MarkedLesions) -> None:
        """Sets annotated lesions that are pasted into images. Raises ValueError if the objective pastes no lesions."""
        raise ValueError(f"{type(self).__name__} cannot paste annotated lesions")

    def classify(self, h: Tensor, z: Tensor) -> Tensor | None:
        """Returns class logits, `(M, k + 1)`, or None if the objective has no class head."""
        return None

    def class_head(self) -> ClassHead | None:
        """Returns a copy of the class head to be saved with the encoder, or None if there is none to save."""
        return None

    @abc.abstractmethod
    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Makes one view per image and class, from which class centres are estimated.

        Args:
            x: Normal images in [0, 1], `(B, 3, S, S)`.
            generator: Random number generator on the CPU, for all random choices.
            roi: Regions of interest, `(B, S, S)`, 1 inside, or None for whole images.
            weak: Whether a weak augmentation follows the strong augmentation.

        Returns:
            The views, `(B (k + 1), 3, S', S')` (S' is the side of an image or patch), and the class of each view, `(B
            (k + 1),)`.
        """
