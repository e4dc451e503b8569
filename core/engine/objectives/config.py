"""Configuration of a pre-training, and its presets: `paper` as printed, `quick` for minutes on a CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from core.engine.augment.medmix.presets import MEDMIX_PRESETS
from core.engine.augment.medmix.settings import MedMixConfig
from core.engine.augment.weak import WEAK_PRESETS, WeakConfig
from core.engine.backbones.base import STRIDES
from core.engine.backbones.encoder import EncoderConfig
from core.engine.config import BadConfig, Config
from core.engine.objectives.centres import CENTRE_KINDS

OPTIMISERS = ("sgd", "adamw")
SCHEDULES = ("constant", "cosine", "onecycle")


@dataclass(frozen=True)
class PretrainConfig(Config):
    """Defaults are the paper's where it gives a value (marked *), and otherwise what is said beside them.

    preset: the name this configuration grew from; only a label.
    objective: a member of OBJECTIVES. size: side of the images in pixels*. patch: side of the local model's patches*.
    batch: source images a step*. Each gives k+1 mixed images and two weak views of each, so the network sees
      batch x (k+1) x 2 views. images_per_step: set it to fix that number of views instead; the source images are then
      images_per_step / (2 (k+1)), rounded down, and `batch` is ignored. 0: `batch` counts.
    epochs: the paper gives none. steps: as many whole epochs as hold so many steps, whatever `epochs` says; 0: `epochs`
      counts. fit_size: side at which detectors on this encoder see images; 0: `size`. fit_closer: whether they look at
      studies of few and large images more closely than that.
    lr*, momentum ("SGD with momentum"*: 0.9 as usual; AdamW's first beta too), weight_decay (3e-4 as CCD), optimiser*,
      schedule.
    strong: a member of STRONG*; its settings are `medmix`, or `strong_options` when it is another. weak: the weak
      views*.
    centres: frozen* | random | equidistant | re-estimated (every `reestimate_every` epochs*). centre_scale: length
      scale of the random and equidistant ones. centre_images: images they are estimated from, 0 for all*.
      centre_weak: whether a weak view lies over the strong augmentation then too, as it does in training.
    k: strongest class, so k+1 classes*. tau: temperature (0.2 as CCD). alpha: see losses.contrastive.kappa (Eq. 7).
    w_ctr, w_con, w_aug, w_pos: weights of l_ctr, l_PMSACL, l_aug, l_pos (all 1*).
    centring, positives: of l_PMSACL, 'both'* and 'view'*; 'denominator', 'class': see losses.contrastive. w_var: weight
      of losses.variance (0*). These three are tries at the loss's shortcut, not the paper's.
    aug_on: what l_aug classifies: 'z' as printed*, or 'features', those of the backbone (as CCD's released code).
    pos_global: whether the global model learns l_pos too (Table ablation), on patches enlarged to the images' size.
    pos_on: what l_pos sees of a pair: 'pair', both*, or 'difference'. pos_jitter: pixels (8 as CCD).
    frozen: layers up to the map of this stride keep their first weights and statistics; 0: all learn*. frozen_norm: the
      backbone's batch norms keep their first statistics. backbone_rate, layer_decay: see training.stages. These serve a
      start from pretrained weights; with frozen = 0 and rates of 1 all is as in the paper.
    select: the encoder that is kept: 'last', or 'best' by l_aug on held-out normals and MedMix of them.
    seed: of the order of images and every augmentation; the encoder has its own.
    autocast, channels_last: see device.autocast; losses are float32 whatever these say.
    snapshot_every: epochs between snapshots for the cluster browser. check_every: steps between confusion matrices.
    """

    preset: str = "paper"
    objective: str = "pmsacl"
    size: int = 256
    patch: int = 32
    batch: int = 32
    images_per_step: int = 0
    epochs: int = 100
    steps: int = 0
    fit_size: int = 0
    fit_closer: bool = False
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 3e-4
    optimiser: str = "sgd"
    schedule: str = "constant"
    strong: str = "medmix"
    strong_options: dict[str, Any] = field(default_factory=dict)
    medmix: MedMixConfig = field(default_factory=lambda: MEDMIX_PRESETS["paper"])
    weak: WeakConfig = field(default_factory=lambda: WEAK_PRESETS["simclr"])
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    centres: str = "frozen"
    reestimate_every: int = 5
    centre_scale: float = 1.0
    centre_images: int = 0
    centre_weak: bool = True
    k: int = 3
    tau: float = 0.2
    alpha: float = 2.0
    w_ctr: float = 1.0
    w_con: float = 1.0
    w_aug: float = 1.0
    w_pos: float = 1.0
    centring: str = "both"
    positives: str = "view"
    w_var: float = 0.0
    aug_on: str = "z"
    pos_global: bool = False
    pos_on: str = "pair"
    pos_jitter: int = 8
    frozen: int = 0
    frozen_norm: bool = False
    backbone_rate: float = 1.0
    layer_decay: float = 1.0
    select: str = "last"
    seed: int = 0
    autocast: bool = True
    channels_last: bool = True
    snapshot_every: int = 5
    check_every: int = 10

    def __post_init__(self) -> None:
        for name, names in (
            ("optimiser", OPTIMISERS),
            ("schedule", SCHEDULES),
            ("centres", CENTRE_KINDS),
            ("centring", ("both", "denominator")),
            ("positives", ("view", "class")),
            ("aug_on", ("z", "features")),
            ("pos_on", ("pair", "difference")),
            ("select", ("last", "best")),
        ):
            if getattr(self, name) not in names:
                raise BadConfig(f"{name} is one of {', '.join(names)}, not {getattr(self, name)!r}")
        for name in ("batch", "epochs", "reestimate_every", "snapshot_every", "check_every"):
            if getattr(self, name) < 1:
                raise BadConfig(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.frozen not in (0, *STRIDES):
            raise BadConfig(f"frozen is a stride, one of {', '.join(map(str, STRIDES))}, or 0, not {self.frozen}")
        for name in ("lr", "tau", "alpha", "centre_scale", "backbone_rate", "layer_decay"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadConfig(f"{name} must be above 0, not {getattr(self, name)}")
        for name in (
            "steps",
            "fit_size",
            "weight_decay",
            "w_ctr",
            "w_con",
            "w_aug",
            "w_pos",
            "w_var",
            "pos_jitter",
            "centre_images",
            "seed",
        ):
            if not 0 <= getattr(self, name) < math.inf:
                raise BadConfig(f"{name} must be 0 or more, not {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise BadConfig(f"momentum must be at least 0 and below 1, not {self.momentum}")
        if not 1 <= self.k <= 7:
            raise BadConfig(f"k must be 1..7 (2 to 8 classes), not {self.k}")
        if min(self.size, self.patch) < 16:
            raise BadConfig("images and patches must be at least 16 pixels wide")
        if 0 < self.images_per_step < 2 * (self.k + 1):
            raise BadConfig(
                f"images_per_step must be at least {2 * (self.k + 1)}, the views of one image, or 0 for batch"
            )

    @property
    def sources(self) -> int:
        """Source images a step."""
        return self.images_per_step // (2 * (self.k + 1)) if self.images_per_step else self.batch

    def length(self, images: int) -> tuple[int, int]:
        """Epochs of a training on so many images, and steps in each: what is left over waits for another epoch."""
        per_epoch = images // max(1, min(self.sources, images)) if images else 0
        return (math.ceil(self.steps / per_epoch) if self.steps and per_epoch else self.epochs), per_epoch


PRETRAIN_PRESETS: dict[str, PretrainConfig] = {
    "paper": PretrainConfig(),
    # Weak views that keep the lesion in sight, and a l_ctr that does not pull four classes to all but one point. Many
    # small steps: with 32 source images a step (256 views) l_aug stayed at chance for as many views.
    "quick": PretrainConfig(
        preset="quick",
        size=64,
        batch=8,
        epochs=8,
        lr=1e-3,
        optimiser="adamw",
        schedule="onecycle",
        weight_decay=1e-2,
        medmix=MEDMIX_PRESETS["quick"],
        weak=WEAK_PRESETS["gentle"],
        centre_images=512,
        w_ctr=0.01,
        aug_on="features",
        snapshot_every=1,
    ),
}
# From ImageNet weights that come with the installation: the recipe of `quick`, but early layers and batch norms keep
# what they know and the rest of the backbone learns at a tenth of the head's rate; and lesions of every size and kind
# are pasted, since nobody knows here what an image shows (RESULTS.md: "What is pasted decides").
PRETRAIN_PRESETS["imagenet"] = PRETRAIN_PRESETS["quick"].replace(
    **{
        "preset": "imagenet",
        "encoder.arch": "efficientnet-lite0",
        "encoder.init": "auto",
        "size": 128,
        "fit_size": 224,
        "fit_closer": True,
        "steps": 150,
        "frozen": 8,
        "frozen_norm": True,
        "backbone_rate": 0.1,
        "snapshot_every": 5,
        "medmix": MEDMIX_PRESETS["varied"].to_dict(),
    }
)
PRETRAIN_DEFAULT = "imagenet"  # what page and verbs begin with; RESULTS.md says why
