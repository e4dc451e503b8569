"""Configuration of the lesion head: what is pasted, how the network learns it, what makes an image's score."""

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
    """families: what is pasted while learning, each "augmentation:preset" of the strong augmentations that give masks;
    an entry may stand twice to come twice as often. held_out: families never trained on, for choosing the score.

    mode: the encoder is `frozen`, fine-tuned (`finetune`), or trained jointly with the PMSACL losses (`joint`).
    w_lesion: weight of the fifth term beside those of Eq. 1; w_class is l_aug's, w_ctr and w_con those of
    l_ctr and l_PMSACL, which joint mode alone has, with tau and alpha as in pre-training.
    steps: optimiser steps. ramp: share of the steps over which what is asked for goes from
    clear lesions alone to all that can be seen.
    blur, grain: most of what hides the trace of a paste, over the whole image: weight of a blur of 5 x 5 cells, and
    standard deviation of noise. Blur hides lesions of a few cells as well.
    ema: decay of the averaged weights, which are the ones kept.
    distances: whether the decoder is also given how far each place lies from normal ones (distances.py).
    checks: how often, evenly over the steps, the averaged network is tried on the validation normals with lesions of
    `held_out`; the weights that find those best are kept. 0: the last ones are.
    validation: share of the given normals that is never trained on, for choosing the score.
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
            raise BadConfig(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if not self.families:
            raise BadConfig("families names at least one strong augmentation, such as growth:growth")
        if self.steps < 1 or self.batch < 2 or self.checks < 0:
            raise BadConfig("steps must be at least 1, batch at least 2 and checks 0 or more")
        if not 0 <= self.validation < 0.9 or not 0 <= self.ema < 1 or not 0 <= self.warmup < 1:
            raise BadConfig("validation lies in [0, 0.9), ema and warmup in [0, 1)")
        if not 0 <= self.blur <= 1 or self.grain < 0:
            raise BadConfig("blur lies in [0, 1], grain is 0 or more")


LESION_PRESETS = {
    "quick": LesionHeadConfig(),
    "varied": LesionHeadConfig(preset="varied", families=(*ENDOSCOPY, "medmix:varied")),
    "fundus": LesionHeadConfig(preset="fundus", families=FUNDUS, blur=0.3, grain=0.02, ramp=0.1, w_dice=1.0),
    "xray": LesionHeadConfig(preset="xray", families=XRAY),
    "ultrasound": LesionHeadConfig(preset="ultrasound", families=ULTRASOUND),
    "joint": LesionHeadConfig(preset="joint", mode="joint"),
    "full": LesionHeadConfig(preset="full", steps=8000, ema=0.999, batch=32),
}
# What a preset's fake lesions are made for, as a user chooses it.
LESION_TITLES = {
    "varied": "images of any kind",
    "quick": "endoscopy",
    "fundus": "fundus",
    "xray": "X-ray",
    "ultrasound": "ultrasound, CT or MRI",
    "joint": "endoscopy, trained jointly (slower)",
    "full": "endoscopy, long (for a GPU)",
}
