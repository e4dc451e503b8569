"""Presets of the pre-training: `paper` as the authors trained, `sphere` to train within minutes on a CPU, and others.

`as-printed` follows the paper's text exactly, but its features collapse. `from-random` can be trained from random
weights. `published-NAME` uses the published settings of the comparator NAME but trains as long as `paper`, for the
command `report --budget paper`.
"""

from __future__ import annotations

from typing import Any

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS
from core.engine.objectives.config import PretrainConfig

AS_PRINTED = PretrainConfig(preset="as-printed", class_views="strong", centre_weak=False)
# Initial weights, unit sphere, schedule and number of epochs are taken from the released code of CCD, on which PMSACL
# is based, because the paper does not state them.
PAPER = AS_PRINTED.replace(
    preset="paper", schedule="cosine", epochs=2000, **{"encoder.init": "auto", "encoder.unit": True}
)
PRETRAIN_PRESETS: dict[str, PretrainConfig] = {
    "paper": PAPER,
    "as-printed": AS_PRINTED,
    # l_ctr is averaged over dimensions instead of summed, because with the sum all classes collapse to one point.
    "from-random": PAPER.replace(
        preset="from-random", w_ctr=1 / AS_PRINTED.encoder.dim, **{"encoder.init": "random", "encoder.unit": False}
    ),
    # Weak views keep the lesion in view, and the weight of l_ctr is too small to pull the four classes together. There
    # are few images per step: with 32 (256 views) l_aug stayed at chance level after the same number of views.
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
# Like `quick`, but starting from the ImageNet weights of the installation, with frozen early layers and batch norms and
# a tenth of the head's learning rate for the rest of the backbone. Lesions of all sizes and kinds are pasted, because
# the kind of image is unknown here (assets/results/history.md: "What is pasted decides").
PRETRAIN_PRESETS["imagenet"] = PRETRAIN_PRESETS["quick"].replace(
    **{
        "preset": "imagenet",
        "encoder.arch": "efficientnet-lite0",
        "encoder.init": "auto",
        "size": 128,
        "fit_size": 224,
        "fit_closer": True,
        "epochs": 1000,  # the limit of steps is reached earlier unless there are few images
        "steps": 150,
        "frozen": 8,
        "frozen_norm": True,
        "backbone_rate": 0.1,
        "snapshot_every": 5,
        "medmix": MEDMIX_PRESETS["varied"].to_dict(),
    }
)
# Version of `paper` for a CPU: fewer and smaller images, lesions that stay in view, and frozen early layers, on which
# distance maps depend. It was chosen by the class accuracy on held-out normals and by the detection of other kinds of
# lesions pasted into held-out normals (assets/results/pmsacl-that-trains.md).
PRETRAIN_PRESETS["sphere"] = PAPER.replace(
    **{
        "preset": "sphere",
        "encoder.arch": "efficientnet-lite0",
        "size": 128,
        "batch": 8,
        "epochs": 1000,
        "steps": 420,
        "fit_size": 224,
        "fit_closer": True,
        "frozen": 8,
        "frozen_norm": True,
        "keep_lesions": True,
        "snapshot_every": 1,
        "medmix": MEDMIX_PRESETS["quick"].to_dict(),
    }
)
# Settings of the comparators' papers and released code that differ from the settings of the PMSACL paper.
PUBLISHED: dict[str, dict[str, Any]] = {
    "droc": {"weak.crop": (0.5, 1.0), "weak.jitter": (0.4, 0.4, 0.4, 0.4)},
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
NOTES = {  # shown to users who choose a preset
    "paper": "as the authors ran it: from ImageNet, on the unit sphere, 2,000 epochs; for a GPU",
    "as-printed": "to the letter, from random weights; features collapse after about 100 steps",
    "from-random": "from random weights, 2,000 epochs; learns slowly",
    "quick": "from random weights, in minutes; learns little",
    "imagenet": "from ImageNet, the quickest; hardly tells the classes apart, yet may help detectors more than sphere",
    "sphere": "from ImageNet, on the unit sphere, in minutes on a CPU",
}
PRETRAIN_DEFAULT = "sphere"  # default of the page and the commands; RESULTS.md explains the choice
