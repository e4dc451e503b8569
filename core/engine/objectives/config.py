"""Options of a pre-training, in groups; does not import torch, so that forms and flags load quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.engine.augment.config import MEDMIX_PRESETS, MOST_CLASSES, WEAK_PRESETS, MedMixConfig, WeakConfig
from core.engine.backbones.config import STRIDES, EncoderConfig
from core.engine.config import BadConfig, Config, option

FROZEN, RANDOM, EQUIDISTANT, REESTIMATED = CENTRE_KINDS = ("frozen", "random", "equidistant", "re-estimated")


def _loss_weight(sentence: str, label: str, group: str = "") -> float:
    weight: float = option(1.0, sentence, low=0, slider=(0, 10), step=0.01, label=label, group=group)
    return weight


@dataclass(frozen=True)
class PretrainConfig(Config):
    """Options of a pre-training. Defaults are the paper's values where the paper gives any."""

    preset: str = option(
        "paper", "Name of the preset on which the configuration is based; only a label.", control="hidden"
    )
    objective: str = option("pmsacl", "Method: a member of OBJECTIVES.", control="hidden")
    strong: str = option(
        "medmix",
        "Strong augmentation: a member of STRONG. MedMix has its options in `medmix`, others in `strong_options`.",
        control="hidden",
    )
    strong_options: dict[str, Any] = option(
        dict, "Options of a strong augmentation other than MedMix.", control="hidden"
    )
    medmix: MedMixConfig = option(lambda: MEDMIX_PRESETS["paper"], "Options of MedMix.")
    weak: WeakConfig = option(lambda: WEAK_PRESETS["simclr"], "Options of the weak views.")
    encoder: EncoderConfig = option(EncoderConfig, "Options of the encoder.")
    size: int = option(
        256,
        "The paper: 256, and 64 for Liu et al.",
        low=16,
        unit="pixels",
        slider=(32, 512),
        label="Image side",
        group="Length and size",
    )
    batch: int = option(
        32,
        "Source images; each is used as 2 (k + 1) views. The paper: 32.",
        low=1,
        slider=(1, 256),
        label="Images per step",
    )
    images_per_step: int = option(
        0,
        "Instead of images per step; divided by 2 (k + 1) and rounded down. 0: use images per step.",
        slider=(0, 4096),
        label="Views per step",
    )
    epochs: int = option(
        100, "Maximum number of epochs; the paper does not state it.", low=1, slider=(1, 5000), label="Epochs"
    )
    steps: int = option(
        0,
        "Maximum number of steps; training also ends after the last epoch. 0: no limit.",
        low=0,
        slider=(0, 1_000_000),
        label="Steps",
    )
    fit_size: int = option(
        0,
        "Side of the images for detectors with this encoder. 0: the same as in training.",
        low=0,
        unit="pixels",
        slider=(0, 512),
        label="Side for detectors",
    )
    fit_closer: bool = option(
        False, "Detectors use up to 384 pixels if images are few and large.", label="Larger side for large images"
    )
    seed: int = option(
        0,
        "Seed of the image order and of all augmentations, not of the encoder's weights. The paper uses five seeds.",
        low=0,
        slider=(0, 2**31 - 1),
        label="Seed",
    )
    optimiser: str = option(
        "sgd",
        "The paper: SGD with momentum (implementation details).",
        choices=("sgd", "adamw"),
        label="Optimiser",
        group="Optimiser",
    )
    lr: float = option(
        0.01,
        "The paper: 0.01 (implementation details).",
        above=0,
        slider=(1e-5, 1),
        step=1e-5,
        log=True,
        label="Learning rate",
    )
    schedule: str = option(
        "constant", "The paper does not name one.", choices=("constant", "cosine", "onecycle"), label="Schedule"
    )
    momentum: float = option(
        0.9,
        "Momentum of SGD, and the first beta of AdamW; the paper gives no value.",
        low=0,
        below=1,
        slider=(0, 0.999),
        step=0.001,
        label="Momentum",
    )
    weight_decay: float = option(
        3e-4, "3e-4 as in CCD's released configuration.", low=0, slider=(0, 0.5), step=1e-4, label="Weight decay"
    )
    frozen: int = option(
        0,
        "Layers up to the feature map at this stride keep their weights and statistics. 0: none are frozen.",
        choices=(0, *STRIDES),
        label="Frozen up to stride",
        group="Start from pretrained weights",
    )
    frozen_norm: bool = option(
        False, "The backbone's batch norms keep their initial statistics.", label="Frozen batch norms"
    )
    backbone_rate: float = option(
        1.0,
        "Learning rate of the backbone's last stage, relative to that of the projection head.",
        above=0,
        slider=(0.001, 1),
        step=0.001,
        log=True,
        label="Backbone's rate",
    )
    layer_decay: float = option(
        1.0,
        "Learning rate of each finer stage, relative to the next coarser one.",
        above=0,
        slider=(0.1, 1),
        step=0.05,
        label="Decay by stage",
    )
    w_ctr: float = _loss_weight("Pull to the centre c_n (PMSACL Eq. 1: all are 1).", "Weight of l_ctr", "Losses")
    w_con: float = _loss_weight("Contrastive loss of centred features (PMSACL Eq. 4).", "Weight of l_PMSACL")
    w_aug: float = _loss_weight("Classification of the classes A_n (PMSACL Eq. 8).", "Weight of l_aug")
    w_pos: float = _loss_weight("Relative position of patches, for the local model and CCD.", "Weight of l_pos")
    tau: float = option(
        0.2,
        "PMSACL Eq. 7; CCD's configuration has 0.2.",
        above=0,
        slider=(0.01, 2),
        step=0.01,
        label="Temperature tau",
    )
    alpha: float = option(
        2.0,
        "Above 1, samples of one class repel each other less (PMSACL Eq. 7).",
        above=0,
        slider=(0.1, 10),
        step=0.1,
        label="alpha of kappa",
    )
    centring: str = option(
        "both",
        "both: as printed. denominator: our variant.",
        choices=("both", "denominator"),
        label="Centred in l_PMSACL",
    )
    positives: str = option(
        "view",
        "view: as printed. class: our variant, other images of the class.",
        choices=("view", "class"),
        label="Positives are",
    )
    w_var: float = option(
        0.0,
        "Keeps the features of a class spread out; ours, not in the paper.",
        low=0,
        slider=(0, 25),
        step=0.1,
        label="Weight of l_var",
    )
    class_views: str = option(
        "weak",
        "strong, as printed (PMSACL Eqs. 3 and 8): a third view of each image with the strong augmentation only. weak: "
        "the two weak views of l_PMSACL, as in CCD.",
        choices=("weak", "strong"),
        label="l_ctr and l_aug see",
    )
    aug_on: str = option(
        "z",
        "z: as printed. features: of the backbone, as in CCD's released code.",
        choices=("z", "features"),
        label="l_aug classifies",
    )
    learn_head: bool = option(True, "In CCD's released code the class head is not trained.", label="Train class head")
    centres: str = option(
        "frozen",
        "Frozen: estimated once before training (PMSACL Eq. 2, Table centers).",
        choices=CENTRE_KINDS,
        label="Centres c_n",
        group="Centres",
    )
    reestimate_every: int = option(
        5, "For re-estimated centres; the paper: 5.", low=1, unit="epochs", slider=(1, 100), label="Re-estimate every"
    )
    centre_scale: float = option(
        1.0, "For random and equidistant centres.", above=0, slider=(0.1, 20), step=0.1, label="Scale of drawn centres"
    )
    centre_images: int = option(
        0, "0: all images, as in the paper.", low=0, slider=(0, 100_000), label="Images for centres"
    )
    centre_weak: bool = option(
        True,
        "Apply weak augmentations before centres are estimated; not in the paper (PMSACL Eq. 2).",
        label="Through weak views",
    )
    keep_lesions: bool = option(
        False,
        "Crops of weak views are moved or enlarged until they contain the middle half of each pasted lesion; otherwise "
        "some views show fewer than n lesions.",
        label="Crops keep lesions in sight",
    )
    k: int = option(
        3,
        "A_0 to A_k: k + 1 classes. The paper: 4, ablated from 2 to 8.",
        low=1,
        high=MOST_CLASSES,
        label="Strong classes",
        group="Classes and patches",
    )
    patch: int = option(
        32, "For the local model; the paper: 32 x 32.", low=16, unit="pixels", slider=(16, 128), label="Side of a patch"
    )
    pos_global: bool = option(
        False,
        "Uses patches enlarged to the images' size; Table ablation lists l_pos for a global model.",
        label="l_pos in the global model",
    )
    pos_on: str = option("pair", "How both patches are combined.", choices=("pair", "difference"), label="l_pos sees")
    pos_jitter: int = option(8, "8 as in CCD.", low=0, unit="pixels", slider=(0, 32), label="Jitter of patches")
    select: str = option(
        "last",
        "best: by l_aug on held-out normals and their MedMix versions, never on test images.",
        choices=("last", "best"),
        label="Keep the encoder",
        group="Keeping and speed",
    )
    stop_on_alarm: bool = option(
        False, "Ends the training at the first alarm, without an encoder.", label="Stop when features collapse"
    )
    snapshot_every: int = option(
        5, "Interval of the encoders in Clusters.", low=1, unit="epochs", slider=(1, 1000), label="Snapshot every"
    )
    check_every: int = option(
        10, "Interval of the confusion matrices.", low=1, unit="steps", slider=(1, 1000), label="Confusion every"
    )
    autocast: bool = option(True, "Losses are always in float32.", label="bf16 if faster")
    channels_last: bool = option(True, "Memory format of images that makes convolutions faster.", label="Channels last")
    compiled: bool = option(
        False,
        "With torch.compile: the first step takes a minute or more, and weights differ in the last digits.",
        label="Compile the encoder",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.images_per_step != 0 and self.images_per_step < 2 * (self.k + 1):
            raise BadConfig(
                f"images_per_step must be at least {2 * (self.k + 1)}, the views of one image, or 0 for batch"
            )

    @property
    def sources(self) -> int:
        """The number of source images in a step."""
        return self.images_per_step // (2 * (self.k + 1)) if self.images_per_step else self.batch

    def length(self, images: int) -> tuple[int, int]:
        """Returns the number of steps of a training on `images` images, and the number of steps per epoch.

        The last images of an epoch are skipped if they do not fill a step.
        """
        per_epoch = images // max(1, min(self.sources, images)) if images else 0
        return min(self.epochs * per_epoch, self.steps or self.epochs * per_epoch), per_epoch
