"""Options of the pre-training. This module does not import torch, so that forms and command-line flags load quickly."""

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
    """Options of the pre-training. The defaults are the paper's values wherever the paper states them."""

    preset: str = option(
        "paper", "Name of the preset on which the configuration is based, a label without effect.", control="hidden"
    )
    objective: str = option("pmsacl", "Pre-training method, a name in OBJECTIVES.", control="hidden")
    strong: str = option(
        "medmix", "Strong augmentation in STRONG, with its options in `medmix` or `strong_options`.", control="hidden"
    )
    strong_options: dict[str, Any] = option(
        dict, "Options of a strong augmentation other than MedMix.", control="hidden"
    )
    medmix: MedMixConfig = option(lambda: MEDMIX_PRESETS["paper"], "Options of MedMix.")
    weak: WeakConfig = option(lambda: WEAK_PRESETS["simclr"], "Options of the weak views.")
    encoder: EncoderConfig = option(EncoderConfig, "Options of the encoder.")
    size: int = option(
        256,
        "The paper uses 256, and 64 for Liu et al.",
        low=16,
        unit="pixels",
        slider=(32, 512),
        label="Image side",
        group="Length and size",
    )
    batch: int = option(
        32, "Each image becomes 2 (k + 1) views. The paper uses 32.", low=1, slider=(1, 256), label="Images per step"
    )
    images_per_step: int = option(
        0, "Replaces images per step unless 0; rounded down to whole images.", slider=(0, 4096), label="Views per step"
    )
    epochs: int = option(
        100, "Maximum number of epochs. The paper does not state it.", low=1, slider=(1, 5000), label="Epochs"
    )
    steps: int = option(
        0, "Maximum number of steps within the epochs. 0 means no limit.", low=0, slider=(0, 1_000_000), label="Steps"
    )
    fit_size: int = option(
        0,
        "Image side for detectors with this encoder. 0 means the side used in training.",
        low=0,
        unit="pixels",
        slider=(0, 512),
        label="Side for detectors",
    )
    fit_closer: bool = option(
        False, "Detectors use up to 384 pixels if there are few, large images.", label="Larger side for large images"
    )
    seed: int = option(
        0,
        "Seed of the image order and of all augmentations, not of the encoder's weights. The paper uses five seeds.",
        low=0,
        slider=(0, 2**31 - 1),
        label="Seed",
    )
    optimiser: str = option(
        "sgd", "The paper uses SGD with momentum.", choices=("sgd", "adamw"), label="Optimiser", group="Optimiser"
    )
    lr: float = option(
        0.01, "The paper uses 0.01.", above=0, slider=(1e-5, 1), step=1e-5, log=True, label="Learning rate"
    )
    schedule: str = option(
        "constant", "The paper does not name a schedule.", choices=("constant", "cosine", "onecycle"), label="Schedule"
    )
    momentum: float = option(
        0.9,
        "Momentum of SGD, or the first beta of AdamW. The paper gives no value.",
        low=0,
        below=1,
        slider=(0, 0.999),
        step=0.001,
        label="Momentum",
    )
    weight_decay: float = option(
        3e-4, "The default is from CCD's released code.", low=0, slider=(0, 0.5), step=1e-4, label="Weight decay"
    )
    frozen: int = option(
        0,
        "Layers up to this stride keep their weights and statistics. 0 freezes no layer.",
        choices=(0, *STRIDES),
        label="Frozen up to stride",
        group="Start from pretrained weights",
    )
    frozen_norm: bool = option(
        False, "Batch norms of the backbone keep their initial statistics.", label="Frozen batch norms"
    )
    backbone_rate: float = option(
        1.0,
        "Learning rate of the backbone's last stage, as a multiple of the projection head's rate.",
        above=0,
        slider=(0.001, 1),
        step=0.001,
        log=True,
        label="Backbone's rate",
    )
    layer_decay: float = option(
        1.0,
        "Learning rate of each stage, as a multiple of the next coarser stage's rate.",
        above=0,
        slider=(0.1, 1),
        step=0.05,
        label="Decay by stage",
    )
    w_ctr: float = _loss_weight("Pulls features to their centre c_n; 1 in PMSACL Eq. 1.", "Weight of l_ctr", "Losses")
    w_con: float = _loss_weight("Contrasts centred features (PMSACL Eq. 4).", "Weight of l_PMSACL")
    w_aug: float = _loss_weight("Classifies the strong augmentation A_n (PMSACL Eq. 8).", "Weight of l_aug")
    w_pos: float = _loss_weight("Predicts the relative position of patches (local model and CCD).", "Weight of l_pos")
    tau: float = option(
        0.2, "Temperature in PMSACL Eq. 7; 0.2 in CCD.", above=0, slider=(0.01, 2), step=0.01, label="Temperature tau"
    )
    alpha: float = option(
        2.0, "Higher values weaken repulsion in a class.", above=0, slider=(0.1, 10), step=0.1, label="alpha of kappa"
    )
    centring: str = option(
        "both", "both is as printed; denominator is ours.", choices=("both", "denominator"), label="Centred in l_PMSACL"
    )
    positives: str = option(
        "view",
        "view is as printed. class, our variant, uses other images of the class.",
        choices=("view", "class"),
        label="Positives are",
    )
    w_var: float = option(
        0.0, "Spreads features within classes; our addition.", low=0, slider=(0, 25), step=0.1, label="Weight of l_var"
    )
    class_views: str = option(
        "weak",
        "strong is as printed (PMSACL Eqs. 3 and 8): a third view with only the strong augmentation. weak is as in "
        "CCD: the two weak views of l_PMSACL.",
        choices=("weak", "strong"),
        label="l_ctr and l_aug see",
    )
    aug_on: str = option(
        "z", "z as printed, or backbone features as in CCD's code.", choices=("z", "features"), label="l_aug classifies"
    )
    learn_head: bool = option(True, "CCD's released code does not train the class head.", label="Train class head")
    centres: str = option(
        "frozen", "Frozen centres are estimated only once.", choices=CENTRE_KINDS, label="Centres c_n", group="Centres"
    )
    reestimate_every: int = option(
        5, "Re-estimation interval; 5 in the paper.", low=1, unit="epochs", slider=(1, 100), label="Re-estimate every"
    )
    centre_scale: float = option(
        1.0, "For random and equidistant centres.", above=0, slider=(0.1, 20), step=0.1, label="Scale of drawn centres"
    )
    centre_images: int = option(
        0, "Number of images. 0 means all, as in the paper.", low=0, slider=(0, 100_000), label="Images for centres"
    )
    centre_weak: bool = option(
        True, "Centres are estimated on weak views, unlike in the paper (PMSACL Eq. 2).", label="Through weak views"
    )
    keep_lesions: bool = option(
        False,
        "Crops of weak views are moved or enlarged until they contain the middle half of each pasted lesion. Otherwise "
        "some views show fewer than n lesions.",
        label="Crops keep lesions in sight",
    )
    k: int = option(
        3,
        "k, for the k + 1 classes A_0 to A_k. The paper uses 4 classes, and 2 to 8 in an ablation.",
        low=1,
        high=MOST_CLASSES,
        label="Strong classes",
        group="Classes and patches",
    )
    patch: int = option(
        32, "For local models; the paper uses 32.", low=16, unit="pixels", slider=(16, 128), label="Side of a patch"
    )
    pos_global: bool = option(
        False,
        "Uses patches enlarged to the size of the images (l_pos for a global model in Table ablation).",
        label="l_pos in the global model",
    )
    pos_on: str = option("pair", "How both patches are combined.", choices=("pair", "difference"), label="l_pos sees")
    pos_jitter: int = option(
        8, "Maximum shift; CCD uses 8.", low=0, unit="pixels", slider=(0, 32), label="Jitter of patches"
    )
    select: str = option(
        "last",
        "best is chosen by l_aug on held-out normals and their MedMix versions, never on test images.",
        choices=("last", "best"),
        label="Keep the encoder",
        group="Keeping and speed",
    )
    stop_on_alarm: bool = option(
        False, "Stops at the first alarm, without saving an encoder.", label="Stop when features collapse"
    )
    snapshot_every: int = option(
        5, "Interval of the encoders shown in Clusters.", low=1, unit="epochs", slider=(1, 1000), label="Snapshot every"
    )
    check_every: int = option(
        10, "Interval between confusion matrices.", low=1, unit="steps", slider=(1, 1000), label="Confusion every"
    )
    autocast: bool = option(True, "Losses are always in float32.", label="bf16 if faster")
    channels_last: bool = option(True, "Memory format that makes convolutions faster.", label="Channels last")
    compiled: bool = option(
        False,
        "Uses torch.compile: the first step takes a minute or more, and weights differ in the last digits.",
        label="Compile the encoder",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.images_per_step != 0 and self.images_per_step < 2 * (self.k + 1):
            raise BadConfig(
                f"images_per_step must be at least {2 * (self.k + 1)}, the views of one image, or 0 to use batch"
            )

    @property
    def sources(self) -> int:
        """Number of source images per step, before augmentation."""
        return self.images_per_step // (2 * (self.k + 1)) if self.images_per_step else self.batch

    def length(self, images: int) -> tuple[int, int]:
        """Returns the total number of steps of a training run on `images` images, and the number of steps per epoch.

        The last images of an epoch are skipped if they do not fill a step.
        """
        per_epoch = images // max(1, min(self.sources, images)) if images else 0
        return min(self.epochs * per_epoch, self.steps or self.epochs * per_epoch), per_epoch
