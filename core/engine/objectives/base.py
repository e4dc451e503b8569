"""Base of the objectives (pre-training methods): each makes views of normal images, and a loss of their features.

    @OBJECTIVES.register("pmsacl", title="PMSACL")
    class PMSACL(Objective): ...

Views are made first, features once for all of them, the loss last: so the loop can time, centre, validate and show
each objective the same way. An objective holds the heads that are thrown away after training (f_beta, f_gamma).
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
    """One step's input. M images, the first V of which are weak views of classes; others may follow.

    images: float32 (M, 3, S, S). labels: (V,) class of each view. partners: (V,) index of the same mixed image's other
    view. strong: (Q,) class of each strongly augmented image without a weak view over it, images[V:V+Q]; None for none.
    places: (P,) class of each pair of patches, for l_pos; the pairs are the last 2 P images, all first ones and then
    all second ones.
    """

    images: Tensor
    labels: Tensor
    partners: Tensor
    places: Tensor | None = None
    strong: Tensor | None = None

    @property
    def classed(self) -> tuple[slice, Tensor]:
        """Which images l_ctr and l_aug see, and their classes: the strong ones where there are any, else the views."""
        count = len(self.labels)
        if self.strong is None:
            return slice(count), self.labels
        return slice(count, count + len(self.strong)), self.strong


@dataclass
class Outcome:
    """A step's loss, and what is reported beside it.

    loss: float32 scalar to minimise. terms: its unweighted parts by name (l_ctr, l_con, l_aug, l_pos), detached.
    z: (V, D) features of the views, detached. logits: (Q or V, k+1) of the class head on `Views.classed`, detached, or
    None if there is none. h: (M, F) the backbone's features of all images, detached, set by the step.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    z: Tensor
    logits: Tensor | None = None
    h: Tensor = field(default_factory=lambda: torch.zeros(1, 1))


class Objective(nn.Module, abc.ABC):
    """Base of the objectives in OBJECTIVES. Each lives in one file."""

    uses_centres: ClassVar[bool] = False
    uses_projection: ClassVar[bool] = True  # whether the loss depends on z
    classes: int  # k+1

    def __init__(self, config: PretrainConfig, encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.classes = config.k + 1

    @abc.abstractmethod
    def views(self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None) -> Views:
        """Makes one step's views of normal images x (B, 3, S, S) in [0, 1].

        roi (B, S, S), 1 inside. Every draw comes from `generator` (on the CPU).
        """

    @abc.abstractmethod
    def loss(self, h: Tensor, z: Tensor, views: Views, centres: Tensor | None) -> Outcome:
        """Computes the loss of backbone features h (M, F) and projections z (M, D) of all `views.images`.

        centres (k+1, D) or None.
        """

    def cut_from(self, pool: Tensor, roi: Tensor | None = None) -> None:
        """Hand in another study's normal images (M, 3, S, S), roi (M, S, S), for the donor `foreign`; see MedMix."""
        raise ValueError(f"{type(self).__name__} cuts no lesions from another study")

    def paste_marked(self, lesions: MarkedLesions) -> None:
        """Hand in the lesions that readers marked, for the donor `marked`; see MedMix."""
        raise ValueError(f"{type(self).__name__} pastes no marked lesions")

    def classify(self, h: Tensor, z: Tensor) -> Tensor | None:
        """Returns the logits (M, k+1) of the class head on h (M, F) or z (M, D); None for an objective without one."""
        return None

    def class_head(self) -> ClassHead | None:
        """Returns a copy of the head that tells A_0 to A_k apart, to be stored with the encoder; None without one."""
        return None

    @abc.abstractmethod
    def samples(
        self, x: Tensor, generator: torch.Generator, roi: Tensor | None = None, weak: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Makes one view of each image and class: images (B (k+1), 3, S', S') and labels, for centres and validation.

        weak: whether a weak view lies over the strong augmentation.
        """
