"""Experiments that start from ImageNet weights: what they tell alone, and what PMSACL makes of them."""

from __future__ import annotations

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.detectors.ensemble.named import BlendConfig
from core.studio.report.arms import Arm
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.sides import ARCH

PMSACL = "PMSACL from ImageNet"
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

    One backbone; random weights, ImageNet's, and what PMSACL makes of each; every quick detector on all of them.
    """
    return _on_encoders(QUICK)


def trained() -> list[Arm]:
    """Lists arms for the same question of detectors that are networks themselves: minutes each at 128 px.

    The encoders are the same.
    """
    return [arm.replace(fit_size=128) for arm in _on_encoders(TRAINED)]


def headed() -> list[Arm]:
    """Lists arms that try what a lesion head adds to the blend, and what both owe to PMSACL; for --size 224.

    Others try how much the head's map counts.
    """
    arms = [arm.replace(closer=True) for arm in _on_encoders({"Blend": "blend", HEADED: "blend-head"})]
    further = [arms[6].replace(label=f"{HEADED}, weight {w:g}", fit={"weight": w}) for w in (0.25, 0.5, 2.0)]
    return [arms[1], arms[2], arms[5], arms[6], *further]


def sides() -> list[Arm]:
    """Lists arms that try how closely the blend and its head look: sides of the images that each sees.

    For studies of large images.
    """
    return [
        Arm(f"blend {size} px, head {side} px", "blend-head", preset="imagenet", sized=False,
            fit_size=size, fit={"side": side})
        for size, side in ((224, 128), (224, 224), (352, 128), (352, 224))
    ]  # fmt: skip


def overfitting() -> list[Arm]:
    """Lists arms that try what may keep a head on ImageNet's features from knowing its fakes alone; for --size 224."""
    tries: dict[str, dict] = {
        "frozen": {},
        "frozen, with distances": {"distances": True},
    }
    return [
        Arm(label, "lesion-head", UNTRAINED, pretrain=PRETRAINED, fit_size=128, fit={"mode": "frozen", **changes})
        for label, changes in tries.items()
    ]


def newer() -> list[Arm]:
    """Lists arms: a detector newer than the paper, and what it builds on, on ImageNet features; for --size 224."""
    nearest = Arm("Nearest patches, ImageNet", "nearest", UNTRAINED, pretrain=PRETRAINED)
    return [
        nearest,
        nearest.replace(label="MH-PatchCore, ImageNet", fit={"whitened": True, "patches": 1000}),
        nearest.replace(label="Blend, ImageNet", detector="blend"),
    ]


def _on_encoders(detectors: dict[str, str]) -> list[Arm]:
    from_random = {"encoder.init": "random", "frozen": 0, "frozen_norm": False, "backbone_rate": 1.0}
    arms = []
    for title, detector in detectors.items():
        arms += [
            Arm(f"{title}, untrained", detector, UNTRAINED, pretrain={**PRETRAINED, "encoder.init": "random"}),
            Arm(f"{title}, ImageNet", detector, UNTRAINED, pretrain=PRETRAINED),
            Arm(f"{title}, {PMSACL}", detector, preset="imagenet", sized=False),
            Arm(f"{title}, PMSACL from random", detector, preset="imagenet", sized=False, pretrain=from_random),
        ]
    return arms


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


def shortcut() -> list[Arm]:
    """Lists arms that try what takes from l_PMSACL its shortcut, and what that brings.

    The shortcut: one constant feature lowers it.
    """
    tries: dict[str, dict] = {
        "as printed": {},
        "centres far apart": {"centres": "equidistant", "centre_scale": 5.0},
        "centred in the denominator": {"centring": "denominator"},
        "positives of the class": {"positives": "class"},
        "with l_var": {"w_var": 1.0},
    }
    return [
        Arm(f"{title}, {label}", detector, preset="imagenet", sized=False, pretrain=changes)
        for label, changes in tries.items()
        for title, detector in (("Mahalanobis", "mahalanobis"), ("Blend", "blend"))
    ]


def views() -> list[Arm]:
    """Lists arms that try views for l_ctr and l_aug, and crops that keep lesions.

    The paper prints strongly augmented images alone.
    """
    tries: dict[str, dict] = {
        "weak views": {"keep_lesions": False},
        "weak views, lesions kept": {},
        "as printed": {"class_views": "strong", "centre_weak": False, "keep_lesions": False},
    }
    return [
        Arm(f"Mahalanobis, {label}", "mahalanobis", preset="imagenet", sized=False, pretrain=changes)
        for label, changes in tries.items()
    ]


EXPERIMENTS = {
    "look": look, "pretrained": pretrained, "trained": trained, "headed": headed, "sides": sides, "members": members,
    "pasted": pasted, "shortcut": shortcut, "views": views, "overfitting": overfitting, "newer": newer,
}  # fmt: skip
CLAIMS = {  # pairs (better, than) that are tested on the same images
    "pretrained": [(f"{title}, {PMSACL}", f"{title}, ImageNet") for title in QUICK],
    "trained": [(f"{title}, {PMSACL}", f"{title}, ImageNet") for title in TRAINED],
    "headed": [
        (f"Blend, {PMSACL}", "Blend, ImageNet"),
        (f"{HEADED}, {PMSACL}", f"{HEADED}, ImageNet"),
        (f"{HEADED}, {PMSACL}", f"Blend, {PMSACL}"),
    ],
}
