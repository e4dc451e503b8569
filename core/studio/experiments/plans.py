"""Experiments: named lists of arms, each an encoder and a detector with changes, run over seeds and put side by side.

The recipes in the presets were chosen with these, and the tables of the README are made by them:
`launch.py experiment NAME --data DIR --seeds N`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.augment.medmix.presets import MEDMIX_PRESETS
from core.engine.config import Config
from core.engine.detectors.blend import BlendConfig
from core.engine.registry import DETECTORS
from core.studio.runs.pipeline import UNTRAINED


@dataclass(frozen=True)
class Arm(Config):
    """One row of a table. pretrain, fit: changes to the presets named, dotted keys allowed.

    encoder: an objective, or `untrained`; the latter takes `encoder.arch` and `encoder.init` of `pretrain`. An
    encoder with the same changes and seed is trained once for all its arms. sized: whether the encoder's side is the
    experiment's (--size); one of a preset with a side of its own keeps it. fit_size: side at which the detector sees
    images, 0 for the encoder's.
    """

    label: str
    detector: str
    encoder: str = "pmsacl"
    preset: str = "quick"
    fit_preset: str = "quick"
    sized: bool = True
    fit_size: int = 0
    pretrain: dict = field(default_factory=dict)
    fit: dict = field(default_factory=dict)


def comparison() -> list[Arm]:
    """The head against PaDiM and IGD on the same encoder, and PaDiM before any training."""
    return [
        Arm("PaDiM, untrained", "padim", UNTRAINED),
        Arm("PaDiM", "padim"),
        Arm("IGD", "igd"),
        Arm("Lesion head", "lesion-head"),
        Arm("Lesion head + PaDiM", "combined"),
        Arm("Lesion head + PaDiM, equal weights", "combined", fit={"learn": False}),
        Arm(DETECTORS.title("ensemble"), "ensemble"),
    ]


def padim() -> list[Arm]:
    """PMSACL against the untrained encoder, nothing else."""
    return comparison()[:2]


def ablation() -> list[Arm]:
    """What the head owes to pre-training, to how the encoder is trained with it, and to what is pasted."""
    hard = {"families": ["medmix:paper"]}
    return [
        Arm("pre-trained, fine-tuned", "lesion-head"),
        Arm("untrained, fine-tuned", "lesion-head", UNTRAINED),
        Arm("pre-trained, frozen", "lesion-head", fit={"mode": "frozen"}),
        Arm("pre-trained, joint", "lesion-head", fit={"mode": "joint"}),
        Arm("hard rectangles", "lesion-head", fit=hard),
    ]


def overfitting() -> list[Arm]:
    """What may keep a head on ImageNet's features from knowing its fakes alone; meant for --size 224."""
    tries: dict[str, dict] = {
        "frozen": {},
        "frozen, with distances": {"distances": True},
        "frozen, stopped early": {"checks": 8},
        "frozen, with distances, stopped early": {"distances": True, "checks": 8},
    }
    return [
        Arm(label, "lesion-head", UNTRAINED, pretrain=PRETRAINED, fit_size=128, fit={"mode": "frozen", **changes})
        for label, changes in tries.items()
    ]


def families() -> list[Arm]:
    """What is pasted while learning: every preset of the lesion head, and the paper's rectangles."""
    presets = ("quick", "fundus", "xray", "ultrasound")
    return [Arm(preset, "lesion-head", fit_preset=preset) for preset in presets] + [
        Arm("hard rectangles", "lesion-head", fit={"families": ["medmix:paper"]})
    ]


def joint() -> list[Arm]:
    """The longer recipe, meant for --size 128: a head trained jointly, alone and with PaDiM an equal in the score."""
    return [
        *padim(),
        Arm("Lesion head, joint", "lesion-head", fit={"mode": "joint"}),
        Arm("Lesion head, joint + PaDiM", "combined", fit={"head.mode": "joint", "score_weight": 1.0}),
    ]


def easy() -> list[Arm]:
    """Absurdly easy classes against the default ones: `probe` separates them before training, and this after it."""
    blocks = {"medmix": _medmix("easy")}
    return [
        Arm("PaDiM", "padim"),
        Arm("PaDiM, absurdly easy classes", "padim", pretrain=blocks),
        Arm("Lesion head", "lesion-head"),
        Arm("Lesion head, absurdly easy classes", "lesion-head", pretrain=blocks),
    ]


def head_only() -> list[Arm]:
    """The head on an untrained encoder: the quickest way to try what is pasted."""
    return [Arm("Lesion head", "lesion-head", UNTRAINED)]


PMSACL = "PMSACL from ImageNet"
QUICK = {"PaDiM": "padim", "Nearest patches": "nearest", "Mahalanobis": "mahalanobis", "Blend": "blend"}
HEADED = "Blend and head"
TRAINED = {"IGD": "igd", "Lesion head": "lesion-head", "Lesion head + PaDiM": "combined"}
PRETRAINED = {"encoder.arch": "efficientnet-lite0", "encoder.init": "imagenet"}


def look() -> list[Arm]:
    """Quick detectors on ImageNet features, without any training; meant for --size 224."""
    arms = [Arm(f"{title}, ImageNet", name, UNTRAINED, pretrain=PRETRAINED) for title, name in QUICK.items()]
    return [Arm("PaDiM, untrained", "padim", UNTRAINED), *arms]


def pretrained() -> list[Arm]:
    """The paper's question with ImageNet weights at hand: what does PMSACL add to them? Meant for --size 224.

    One backbone; random weights, ImageNet's, and what PMSACL makes of each; every quick detector on all of them.
    """
    return _on_encoders(QUICK)


def trained() -> list[Arm]:
    """The same question for detectors that are networks themselves, on the same encoders: minutes each at 128 px."""
    return [arm.replace(fit_size=128) for arm in _on_encoders(TRAINED)]


def headed() -> list[Arm]:
    """What a lesion head adds to the blend, what both owe to PMSACL, and how much its map counts; --size 224."""
    arms = _on_encoders({"Blend": "blend", HEADED: "blend-head"})
    further = [arms[6].replace(label=f"{HEADED}, weight {w:g}", fit={"weight": w}) for w in (0.25, 0.5, 2.0)]
    return [arms[1], arms[2], arms[5], arms[6], *further]


def _on_encoders(detectors: dict[str, str]) -> list[Arm]:
    lite = {"encoder.arch": "efficientnet-lite0"}
    from_random = {"encoder.init": "random", "frozen": 0, "frozen_norm": False, "backbone_rate": 1.0}
    arms = []
    for title, detector in detectors.items():
        arms += [
            Arm(f"{title}, untrained", detector, UNTRAINED, pretrain={**lite, "encoder.init": "random"}),
            Arm(f"{title}, ImageNet", detector, UNTRAINED, pretrain=PRETRAINED),
            Arm(f"{title}, {PMSACL}", detector, preset="imagenet", sized=False),
            Arm(f"{title}, PMSACL from random", detector, preset="imagenet", sized=False, pretrain=from_random),
        ]
    return arms


def members() -> list[Arm]:
    """Whether each member of the blend earns its place: all of them, and each left out. Meant for --size 224."""
    every = list(BlendConfig().maps)
    arms = [Arm("Blend", "blend", preset="imagenet", sized=False)]
    for name in every:
        others = {"maps": [other for other in every if other != name]}
        arms.append(Arm(f"Blend without {name}", "blend", preset="imagenet", sized=False, fit=others))
    return [*arms, Arm("Blend without colour", "blend", preset="imagenet", sized=False, fit={"colour": False})]


def pasted() -> list[Arm]:
    """What PMSACL learns from when it starts from ImageNet: round lesions, the paper's, those of a kind of image."""
    return [
        Arm(f"{title}, {preset}", detector, preset="imagenet", sized=False, pretrain={"medmix": _medmix(preset)})
        for preset in ("quick", "paper", "endoscopy", "fundus", "xray", "varied")
        for title, detector in (("Mahalanobis", "mahalanobis"), ("Blend", "blend"))
    ]


def _medmix(preset: str) -> dict:
    return MEDMIX_PRESETS[preset].to_dict()


def shortcut() -> list[Arm]:
    """What may take from l_PMSACL its shortcut (one constant feature for all images lowers it), and what it brings."""
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


EXPERIMENTS = {
    "look": look,
    "pretrained": pretrained,
    "trained": trained,
    "headed": headed,
    "members": members,
    "pasted": pasted,
    "shortcut": shortcut,
    "comparison": comparison, "padim": padim, "ablation": ablation, "families": families, "easy": easy, "joint": joint,
    "overfitting": overfitting, "head": head_only,
}  # fmt: skip
JUDGED = ("families", "ablation", "overfitting")  # their rows also hold AUROCs on synthetic lesions in held-out normals
CLAIMS = {  # pairs (better, than) that are tested on the same images
    "pretrained": [(f"{title}, {PMSACL}", f"{title}, ImageNet") for title in QUICK],
    "trained": [(f"{title}, {PMSACL}", f"{title}, ImageNet") for title in TRAINED],
    "headed": [(f"{HEADED}, {PMSACL}", f"Blend, {PMSACL}"), (f"{HEADED}, {PMSACL}", f"{HEADED}, ImageNet")],
    "padim": [("PaDiM", "PaDiM, untrained")],
}
