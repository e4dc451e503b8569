"""Experiments that start from ImageNet weights: what they tell alone, and what PMSACL makes of them."""

from __future__ import annotations

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.detectors.ensemble.named import BlendConfig
from core.engine.objectives.presets import PRETRAIN_DEFAULT
from core.studio.report.arms import Arm
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.sides import ARCH

PMSACL = "PMSACL from ImageNet"
TRAINED_NOW, TRAINED_BEFORE = f"PMSACL {PRETRAIN_DEFAULT}", "PMSACL imagenet"  # by their presets
QUICK = {"PaDiM": "padim", "Nearest patches": "nearest", "Mahalanobis": "mahalanobis", "Blend": "blend"}
HEADED = "Blend and head"
TRAINED = {"IGD": "igd", "Lesion head": "lesion-head", "Lesion head + PaDiM": "combined"}
PRETRAINED = {"encoder.arch": ARCH, "encoder.init": "imagenet"}


def look() -> list[Arm]:
    """Lists arms: quick detectors on ImageNet features, without any training; meant for --size 224."""
    arms = [Arm(f"{title}, ImageNet", name, UNTRAINED, pretrain=PRETRAINED) for title, name in QUICK.items()]
    return [Arm("PaDiM, untrained", "padim", UNTRAINED), *arms]


def pretrained() -> list[Arm]:
    """Lists arms for the paper's question with ImageNet weights at hand: what does PMSACL add? Meant for --size 224.

    The quick detectors, and the default with its lesion head, on ImageNet's features and on what PMSACL makes of them.
    """
    return [arm.replace(closer=True) for arm in _on_encoders({**QUICK, HEADED: "blend-head"})]


def trained() -> list[Arm]:
    """Lists arms for the same question of detectors that are networks themselves: minutes each at 128 px.

    The encoders are the same.
    """
    return [arm.replace(fit_size=128) for arm in _on_encoders(TRAINED)]


def sides() -> list[Arm]:
    """Lists arms that try how closely the blend and its head look: sides of the images that each sees.

    For studies of large images.
    """
    return [
        Arm(f"blend {size} px, head {side} px", "blend-head", preset="imagenet", sized=False,
            fit_size=size, fit={"side": side})
        for size, side in ((224, 128), (224, 224), (352, 128), (352, 224))
    ]  # fmt: skip


def newer() -> list[Arm]:
    """Lists arms: a detector newer than the paper, and what it builds on, on ImageNet features; for --size 224."""
    nearest = Arm("Nearest patches, ImageNet", "nearest", UNTRAINED, pretrain=PRETRAINED)
    return [
        nearest,
        nearest.replace(label="MH-PatchCore, ImageNet", fit={"whitened": True, "patches": 1000}),
        nearest.replace(label="Blend, ImageNet", detector="blend"),
    ]


def _on_encoders(detectors: dict[str, str]) -> list[Arm]:
    """Lists arms of detectors on each encoder: ImageNet's, the default pre-training's, the default before's."""
    encoders: dict[str, dict] = {
        "ImageNet": {"encoder": UNTRAINED, "pretrain": PRETRAINED},
        TRAINED_NOW: {"preset": PRETRAIN_DEFAULT, "sized": False},
        TRAINED_BEFORE: {"preset": "imagenet", "sized": False},
    }
    return [
        Arm(f"{title}, {name}", detector, **settings)
        for name, settings in encoders.items()
        for title, detector in detectors.items()
    ]


def members() -> list[Arm]:
    """Lists arms that try if each member of the blend earns its place: all, and each left out. For --size 224."""
    every = list(BlendConfig().maps)
    arms = [Arm("Blend", "blend", preset="imagenet", sized=False)]
    for name in every:
        others = {"maps": [other for other in every if other != name]}
        arms.append(Arm(f"Blend without {name}", "blend", preset="imagenet", sized=False, fit=others))
    return [*arms, Arm("Blend without colour", "blend", preset="imagenet", sized=False, fit={"colour": False})]


def pasted() -> list[Arm]:
    """Lists arms that try what PMSACL learns from, starting from ImageNet.

    It is round lesions, the paper's, and those of a kind of image.
    """
    return [
        Arm(
            f"{title}, {preset}",
            detector,
            preset="imagenet",
            sized=False,
            pretrain={"medmix": MEDMIX_PRESETS[preset].to_dict()},
        )
        for preset in ("quick", "paper", "endoscopy", "fundus", "xray", "varied")
        for title, detector in (("Mahalanobis", "mahalanobis"), ("Blend", "blend"))
    ]


EXPERIMENTS = {
    "look": look, "pretrained": pretrained, "trained": trained, "sides": sides, "members": members,
    "pasted": pasted, "newer": newer,
}  # fmt: skip
CLAIMS = {  # pairs (better, than) that are tested on the same images
    name: [
        (f"{title}, {TRAINED_NOW}", f"{title}, {other}") for title in titles for other in ("ImageNet", TRAINED_BEFORE)
    ]
    for name, titles in (("pretrained", (*QUICK, HEADED)), ("trained", TRAINED))
}
CLAIMS["pretrained"].append((f"{HEADED}, {TRAINED_NOW}", f"Blend, {TRAINED_NOW}"))
