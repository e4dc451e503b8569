"""Options of the lesion head: the pasted lesions, the training, and the choice of the image's score."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config

ENDOSCOPY = ("growth:body", "medmix:large", "medmix:swell")
FUNDUS = ("growth:flat", "medmix:fundus", "medmix:soft", "medmix:endoscopy")
XRAY = ("medmix:xray", "medmix:xray", "medmix:large", "medmix:zoom")
ULTRASOUND = ("growth:body", "medmix:ultrasound", "medmix:ultrasound", "medmix:zoom")
MODES = ("frozen", "finetune", "joint")


@dataclass(frozen=True)
class LesionHeadConfig(Config):
    """Options of the lesion head.

    families: kinds of lesions pasted in training, each "augmentation:preset" of a strong augmentation that returns
    masks; a family listed twice is used twice as often. held_out: families used for validation only.
    mode: whether the encoder is `frozen`, fine-tuned (`finetune`), or trained jointly with the PMSACL losses (`joint`).
    w_lesion: loss weight of the lesion masks, a fifth term in addition to Eq. 1. w_class: weight of l_aug. w_ctr,
    w_con: weights of l_ctr and l_PMSACL in joint mode, with tau and alpha as in pre-training.
    steps: optimiser steps. ramp: share of the steps over which the target grows from clearly visible lesions to all
    visible ones. ema: decay of the averaged weights, which are used after the training.
    blur, grain: upper limits of the weight of a 5 x 5 blur and of the standard deviation of noise, which hide the
    traces of pasting over the whole image. Blur also hides lesions of a few cells.
    distances: whether the decoder also gets the distance of each position from normal images (`Distances`).
    checks: number of times that the averaged network is evaluated on the validation images with lesions of `held_out`;
    the best weights are used. With 0 the last weights are used.
    validation: share of the normal images that is held out for the choice of the score.
    """

    preset: str = "quick"
    families: tuple[str, ...] = ENDOSCOPY
    held_out: tuple[str, ...] = ("medmix:lens", "medmix:mottle", "medmix:seam")
    k: int = 3
    mode: str = "finetune"
    w_lesion: float = 1.0
    w_dice: float = 0.5
    w_class: float = 0.2
    w_ctr: float = 0.01
    w_con: float = 0.2
    tau: float = 0.2
    alpha: float = 2.0
    width: int = 64
    batch: int = 16
    steps: int = 1200
    lr: float = 1e-3
    weight_decay: float = 1e-2
    warmup: float = 0.2
    ramp: float = 0.3
    blur: float = 1.0
    grain: float = 0.04
    ema: float = 0.995
    distances: bool = False
    checks: int = 0
    validation: float = 0.12
    autocast: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadConfig(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        if not self.families:
            raise BadConfig("families must name at least one strong augmentation, such as growth:growth")
        if self.steps < 1 or self.batch < 2 or self.checks < 0:
            raise BadConfig("steps must be at least 1, batch at least 2 and checks 0 or more")
        if not 0 <= self.validation < 0.9 or not 0 <= self.ema < 1 or not 0 <= self.warmup < 1:
            raise BadConfig("validation must be in [0, 0.9), ema and warmup in [0, 1)")
        if not 0 <= self.blur <= 1 or self.grain < 0:
            raise BadConfig("blur must be in [0, 1], and grain 0 or more")


LESION_PRESETS = {
    "quick": LesionHeadConfig(),
    "varied": LesionHeadConfig(preset="varied", families=(*ENDOSCOPY, "medmix:varied")),
    "fundus": LesionHeadConfig(preset="fundus", families=FUNDUS, blur=0.3, grain=0.02, ramp=0.1, w_dice=1.0),
    "xray": LesionHeadConfig(preset="xray", families=XRAY),
    "ultrasound": LesionHeadConfig(preset="ultrasound", families=ULTRASOUND),
    "joint": LesionHeadConfig(preset="joint", mode="joint"),
    "full": LesionHeadConfig(preset="full", steps=8000, ema=0.999, batch=32),
}
# The kind of images that each preset's fake lesions are made for, as users choose it.
LESION_TITLES = {
    "varied": "images of any kind",
    "quick": "endoscopy",
    "fundus": "fundus",
    "xray": "X-ray",
    "ultrasound": "ultrasound, CT or MRI",
    "joint": "endoscopy, trained jointly (slower)",
    "full": "endoscopy, long (for a GPU)",
}
