"""Options of the lesion head: pasted lesions, training, and the choice of the image's score."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config, option

ENDOSCOPY = ("growth:body", "medmix:large", "medmix:swell")
FUNDUS = ("growth:flat", "medmix:fundus", "medmix:soft", "medmix:endoscopy")
XRAY = ("medmix:xray", "medmix:xray", "medmix:large", "medmix:zoom")
ULTRASOUND = ("growth:body", "medmix:ultrasound", "medmix:ultrasound", "medmix:zoom")
MODES = ("frozen", "finetune", "joint")


@dataclass(frozen=True)
class LesionHeadConfig(Config):
    """Options of the lesion head.

    families: Families (kinds) of lesions pasted in training, each as "augmentation:preset" of a strong augmentation
        that returns masks. A family listed twice is used twice as often.
    held_out: Families that are used only for validation.
    k: Maximum number of lesions per image.
    mode: `frozen` to leave the encoder unchanged, `finetune` to fine-tune it, or `joint` to fine-tune it with the
        PMSACL losses as well.
    w_lesion: Weight of the lesion mask loss, which is added to the terms of Eq. 1.
    w_dice: Weight of the Dice loss within the lesion mask loss.
    w_class: Weight of l_aug.
    w_ctr: Weight of l_ctr in the mode `joint`.
    w_con: Weight of l_PMSACL in the mode `joint`, with tau and alpha as in pre-training.
    steps: Number of optimiser steps.
    ramp: Fraction of the steps over which the masks grow from clearly visible lesions to all visible lesions.
    blur: Maximum weight of a 5 x 5 blur of the whole image, which hides the traces of pasting. A strong blur also hides
        lesions of a few cells.
    grain: Maximum standard deviation of noise in the whole image, which hides the traces of pasting.
    ema: Decay of the moving average of the weights, which is used after training.
    distances: Whether the decoder also receives the distance of each position from normal images (`Distances`).
    validation: Fraction of the normal images that is held out to choose the score.
    """

    preset: str = "quick"
    families: tuple[str, ...] = ENDOSCOPY
    held_out: tuple[str, ...] = ("medmix:lens", "medmix:mottle", "medmix:seam")
    k: int = 3
    mode: str = option("finetune", choices=MODES)
    w_lesion: float = 1.0
    w_dice: float = 0.5
    w_class: float = 0.2
    w_ctr: float = 0.01
    w_con: float = 0.2
    tau: float = 0.2
    alpha: float = 2.0
    width: int = 64
    batch: int = option(16, low=2)
    steps: int = option(1200, low=1)
    lr: float = 1e-3
    weight_decay: float = 1e-2
    warmup: float = option(0.2, low=0, below=1)
    ramp: float = 0.3
    blur: float = option(1.0, low=0, high=1)
    grain: float = option(0.04, low=0)
    ema: float = option(0.995, low=0, below=1)
    distances: bool = False
    validation: float = option(0.12, low=0, below=0.9)
    autocast: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.families:
            raise BadConfig("families must name at least one strong augmentation, such as growth:growth")


LESION_PRESETS = {
    "quick": LesionHeadConfig(),
    "varied": LesionHeadConfig(preset="varied", families=(*ENDOSCOPY, "medmix:varied")),
    "fundus": LesionHeadConfig(preset="fundus", families=FUNDUS, blur=0.3, grain=0.02, ramp=0.1, w_dice=1.0),
    "xray": LesionHeadConfig(preset="xray", families=XRAY),
    "ultrasound": LesionHeadConfig(preset="ultrasound", families=ULTRASOUND),
    "joint": LesionHeadConfig(preset="joint", mode="joint"),
    "full": LesionHeadConfig(preset="full", steps=8000, ema=0.999, batch=32),
}
LESION_TITLES = {  # kind of images that each preset's synthetic lesions are made for, as shown to users
    "varied": "images of any kind",
    "quick": "endoscopy",
    "fundus": "fundus",
    "xray": "X-ray",
    "ultrasound": "ultrasound, CT or MRI",
    "joint": "endoscopy, trained jointly (slower)",
    "full": "endoscopy, long (for a GPU)",
}
