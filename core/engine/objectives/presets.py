"""Presets of a pre-training: `paper` as the authors ran it, `sphere` the same in minutes on a CPU.

`as-printed`: the paper's text to the letter, which collapses; `from-random`: the reading of it that trains from random
weights. `published-NAME`: a comparator as published, which `report --budget paper` uses; its length is that of `paper`.
"""

from __future__ import annotations

from typing import Any

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS
from core.engine.objectives.config import PretrainConfig

AS_PRINTED = PretrainConfig(preset="as-printed", class_views="strong", centre_weak=False)
# The start, the unit sphere, the schedule and its length are those of the authors' released code of CCD, which PMSACL
# goes on from; the paper leaves them unsaid.
PAPER = AS_PRINTED.replace(
    preset="paper", schedule="cosine", epochs=2000, **{"encoder.init": "auto", "encoder.unit": True}
)
PRETRAIN_PRESETS: dict[str, PretrainConfig] = {
    "paper": PAPER,
    "as-printed": AS_PRINTED,
    # l_ctr as a mean over the dimensions of Z instead of their sum: with the sum, all classes fall to one point.
    "from-random": PAPER.replace(
        preset="from-random", w_ctr=1 / AS_PRINTED.encoder.dim, **{"encoder.init": "random", "encoder.unit": False}
    ),
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
        keep_lesions=True,
        snapshot_every=1,
    ),
}
# From ImageNet weights that come with the installation: the recipe of `quick`, but early layers and batch norms keep
# what they know and the rest of the backbone learns at a tenth of the head's rate; and lesions of every size and kind
# are pasted, since nobody knows here what an image shows (assets/results/history.md: "What is pasted decides").
PRETRAIN_PRESETS["imagenet"] = PRETRAIN_PRESETS["quick"].replace(
    **{
        "preset": "imagenet",
        "encoder.arch": "efficientnet-lite0",
        "encoder.init": "auto",
        "size": 128,
        "fit_size": 224,
        "fit_closer": True,
        "epochs": 1000,  # the steps end it first, unless there are few images
        "steps": 150,
        "frozen": 8,
        "frozen_norm": True,
        "backbone_rate": 0.1,
        "snapshot_every": 5,
        "medmix": MEDMIX_PRESETS["varied"].to_dict(),
    }
)
# `paper` on a CPU: fewer and smaller images, lesions that stay in sight, and early layers that keep what ImageNet
# taught them, which maps of distances live on. Chosen by class accuracy on held-out normals and by lesions of other
# kinds pasted into them (assets/results/pmsacl-that-trains.md).
PRETRAIN_PRESETS["sphere"] = PAPER.replace(
    **{
        "preset": "sphere",
        "encoder.arch": "efficientnet-lite0",
        "size": 128,
        "batch": 8,
        "epochs": 1000,
        "steps": 280,
        "fit_size": 224,
        "fit_closer": True,
        "frozen": 8,
        "frozen_norm": True,
        "keep_lesions": True,
        "snapshot_every": 1,
        "medmix": MEDMIX_PRESETS["quick"].to_dict(),
    }
)
# The comparators as their papers and released code have them, where the paper's own settings differ.
PUBLISHED: dict[str, dict[str, Any]] = {
    "droc": {
        "weak.crop": (0.5, 1.0),
        "weak.jitter": (0.4, 0.4, 0.4, 0.4),
    },
    "csi": {"tau": 0.5, "weak.jitter": (0.4, 0.4, 0.4, 0.1), "weak.p_blur": 0.0},
    "ccd": {
        "strong": "permutation",
        "class_views": "weak",
        "weak.crop": (0.2, 1.0),
        "weak.jitter": (0.4, 0.4, 0.4, 0.1),
        "weak.p_blur": 0.0,
        "aug_on": "features",
        "learn_head": False,
        "pos_on": "difference",
    },
}
PRETRAIN_PRESETS |= {
    f"published-{name}": PRETRAIN_PRESETS["paper"].replace(preset=f"published-{name}", objective=name, **changes)
    for name, changes in PUBLISHED.items()
}
NOTES = {  # what to know of a preset before it is chosen
    "paper": "as the authors ran it: from ImageNet, on the unit sphere, 2,000 epochs; for a GPU",
    "as-printed": "to the letter, from random weights; features collapse after about 100 steps",
    "from-random": "from random weights, 2,000 epochs; learns slowly",
    "quick": "from random weights, in minutes; learns little",
    "imagenet": "from ImageNet, the quickest; hardly tells the classes apart",
    "sphere": "from ImageNet, on the unit sphere, in minutes on a CPU",
}
PRETRAIN_DEFAULT = "sphere"  # what page and verbs begin with; RESULTS.md says why
