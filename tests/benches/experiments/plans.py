"""Experiments: named lists of arms, each an encoder and a detector with changes, run over seeds and put side by side.

The recipes in the presets were chosen with these, and the tables of the README are made by them:
`launch.py experiment NAME --data DIR --seeds N`.
"""

from __future__ import annotations

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.registry import DETECTORS
from core.studio.report.arms import Arm
from core.studio.runs.pipeline import UNTRAINED
from tests.benches.experiments import contour, from_imagenet, marks


def comparison() -> list[Arm]:
    """Lists arms: the head, PaDiM and IGD on the same encoder, and PaDiM before any training."""
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
    """Lists arms: PaDiM on PMSACL's encoder and on the untrained one, nothing else."""
    return comparison()[:2]


def ablation() -> list[Arm]:
    """Lists arms for what the head owes to pre-training, to how the encoder is trained with it, to what is pasted."""
    hard = {"families": ["medmix:paper"]}
    return [
        Arm("pre-trained, fine-tuned", "lesion-head"),
        Arm("untrained, fine-tuned", "lesion-head", UNTRAINED),
        Arm("pre-trained, frozen", "lesion-head", fit={"mode": "frozen"}),
        Arm("pre-trained, joint", "lesion-head", fit={"mode": "joint"}),
        Arm("hard rectangles", "lesion-head", fit=hard),
    ]


def families() -> list[Arm]:
    """Lists arms that try what is pasted while learning: the lesion head's presets, and the paper's rectangles."""
    presets = ("quick", "fundus", "xray", "ultrasound")
    return [Arm(preset, "lesion-head", fit_preset=preset) for preset in presets] + [
        Arm("hard rectangles", "lesion-head", fit={"families": ["medmix:paper"]})
    ]


def joint() -> list[Arm]:
    """Lists arms of the longer recipe, a head trained jointly, alone and with PaDiM an equal in the score.

    Meant for --size 128.
    """
    return [
        *padim(),
        Arm("Lesion head, joint", "lesion-head", fit={"mode": "joint"}),
        Arm("Lesion head, joint + PaDiM", "combined", fit={"head.mode": "joint", "score_weight": 1.0}),
    ]


def easy() -> list[Arm]:
    """Lists arms: absurdly easy classes and the default ones.

    `probe` separates them before training, and this after it.
    """
    blocks = {"medmix": MEDMIX_PRESETS["easy"].to_dict()}
    return [
        Arm("PaDiM", "padim"),
        Arm("PaDiM, absurdly easy classes", "padim", pretrain=blocks),
        Arm("Lesion head", "lesion-head"),
        Arm("Lesion head, absurdly easy classes", "lesion-head", pretrain=blocks),
    ]


def head_only() -> list[Arm]:
    """Lists one arm, the head on an untrained encoder: the quickest way to try what is pasted."""
    return [Arm("Lesion head", "lesion-head", UNTRAINED)]


EXPERIMENTS = {
    **from_imagenet.EXPERIMENTS,
    "comparison": comparison, "padim": padim, "ablation": ablation, "families": families, "easy": easy, "joint": joint,
    "head": head_only, "contour": contour.contour, "marks": marks.marks,
}  # fmt: skip
JUDGED = ("families", "ablation")  # their rows also hold AUROCs on synthetic lesions in held-out normals
CLAIMS = {**from_imagenet.CLAIMS, "padim": [("PaDiM", "PaDiM, untrained")]}  # (better, than), on the same images
