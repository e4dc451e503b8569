"""Base of the objectives (pre-training methods): each makes views of normal images and computes a loss of them.

    @OBJECTIVES.register("pmsacl", title="PMSACL")
    class PMSACL(Objective): ...

A step first makes views, then computes the features of all of them, and then the loss, so that the loop treats all
objectives in the same way. An objective has the heads that are used in training only (f_beta, f_gamma).
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
    """The input of a step: M images, the first V of which are weak views of the classes; others may follow.

    images: float32 (M, 3, S, S). labels: (V,), class of each view. partners: (V,), index of the other view of the same
    mixed image. strong: (Q,), class of each strongly augmented image without a weak view, images[V:V+Q]; None if there
    are none. places: (P,), class of each pair of patches, for l_pos; the last 2 P images are the first patches of all
    pairs, then their second patches.
    """

    images: Tensor
    labels: Tensor
    partners: Tensor
    places: Tensor | None = None
    strong: Tensor | None = None

    @property
    def classed(self) -> tuple[slice, Tensor]:
        """The slice of images that l_ctr and l_aug use (the strong ones if any, else the views), and their classes."""
        count = len(self.labels)
        if self.strong is None:
            return slice(count), self.labels
        return slice(count, count + len(self.strong)), self.strong


@dataclass
class Outcome:
    """The loss of a step, and the values that are reported with it.

    loss: float32 scalar to minimise. terms: its unweighted terms by name (l_ctr, l_con, l_aug, l_pos), detached.
    z: (V, D), features of the views, detached. logits: (Q or V, k+1), class head's logits of `Views.classed`, detached;
    None without a class head. h: (M, F), the backbone's features of all images, detached; set by the step.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    z: Tensor
    logits: Tensor | None = None
    h: Tensor = field(default_factory=lambda: torch.zeros(1, 1))


Terms = dict[str, tuple[float, Tensor]]  # weight and value of each term of the loss, by name


def outcome_of(terms: Terms, z: Tensor, logits: Tensor | None = None) -> Outcome:
    """Returns the outcome whose loss is the weighted sum of `terms`; for z and logits see `Outcome`."""
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

        generator: source of all randomness, on the CPU. roi: (B, S, S), 1 inside, or None.
        """

    @abc.abstractmethod
    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        """Computes the loss from the backbone features h (M, F) and projections z (M, D) of all `views.images`.

        centres: (k+1, D), or None if the objective does not use them.
        """

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        """Sets the images (M, 3, S, S) and roi (M, S, S) of another study for the donor `foreign`; see MedMix."""
        raise ValueError(f"{type(self).__name__} cuts no lesions from another study")

    def paste_marked(self, lesions: MarkedLesions) -> None:
        """Sets the lesions that readers marked, for the donor `marked`; see MedMix."""
        raise ValueError(f"{type(self).__name__} pastes no marked lesions")

    def classify(self, h: Tensor, z: Tensor) -> Tensor | None:
        """Returns the logits (M, k+1) of the class head on h (M, F) or z (M, D); None without a class head."""
        return None

    def class_head(self) -> ClassHead | None:
        """Returns a copy of the head that classifies A_0 to A_k, to be saved with the encoder; None without one."""
        return None

    @abc.abstractmethod
    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Makes one view of each image and class: images (B (k+1), 3, S', S') and labels, for centres and validation.

        weak: whether a weak augmentation follows the strong one.
        """
