"""Defines the paper's tables as lists of arms. Table detection also has a row for every other registered detector.

All rows of a report use the same network and initial weights (`NETWORKS`), so that rows differ only in the method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.studio.report.arms import Arm
from core.studio.report.published import DETECTION, LOCALISATION
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.sides import ARCH

FILES = {"html": "report.html", "csv": "report.csv", "tex": "report.tex", "json": "report.json"}


@dataclass(frozen=True)
class Network:
    """Backbone that all rows share. `arch` and `weights` are the options `encoder.arch` and `encoder.init`."""

    arch: str
    title: str
    weights: str = "random"

    @property
    def words(self) -> str:
        """A description of the backbone and its initial weights."""
        starts = {
            "random": "from random weights",
            "imagenet": "from ImageNet's weights",
            "auto": "from ImageNet's weights (or EfficientNet-lite0 if these weights are not on this machine)",
        }
        return f"{self.title}, {starts.get(self.weights, f'from the weights in {Path(self.weights).name}')}"

    @property
    def sentence(self) -> str:
        """A sentence on the network of all rows in a report."""
        return f"All rows: {self.words}."


NETWORKS = {
    # A step takes a sixth of the time that ResNet-18 takes, and the tables need thirty encoders per seed.
    "narrow": Network("test_resnet", "ResNet of 0.4 million weights"),
    "lite0": Network(ARCH, "EfficientNet-lite0", "imagenet"),
    "resnet18": Network("resnet18", "ResNet-18", "auto"),
}
BUDGETS = {"quick": "narrow", "paper": "resnet18"}  # default network of each budget
# Options that preserve pretrained weights in short training; they are the same for all objectives.
CAREFUL = {name: getattr(PRETRAIN_PRESETS["imagenet"], name) for name in ("frozen", "frozen_norm", "backbone_rate")}
# Options for random weights, as in the preset from-random; with the preset paper, encoders would collapse.
FROM_RANDOM = {"encoder.unit": False, "w_ctr": PRETRAIN_PRESETS["from-random"].w_ctr}
QUICK = {"epochs": 4}  # half of the epochs in the preset
REESTIMATED = {"reestimate_every": 1}  # the default is every fifth epoch, which such short training does not reach
# Detectors that are trained have fewer steps in the budget quick.
QUICK_FIT = {
    "igd": {"max_steps": 150},
    "lesion-head": {"steps": 150},
    "combined": {"head.steps": 150},
    "blend-head": {"head.steps": 150},
    "ensemble": {"head.steps": 150},
}


@dataclass(frozen=True)
class Table:
    """A table of the paper, with a row per arm and a column per metric. A claim is a pair of labels (better, than)."""

    name: str
    title: str
    metrics: tuple[str, ...]
    arms: tuple[Arm, ...]
    claims: tuple[tuple[str, str], ...] = field(default=())


_PMSACL: dict = {}
_CCD = {"strong": "permutation", "class_views": "weak"}  # CCD with MedMix is a row of the ablation


def _on(detector: str) -> list[Arm]:
    """Returns the arms of a detector in Tables detection and localisation, one for each of three encoders."""
    title = DETECTORS.title(detector)
    return [
        Arm(title, detector, UNTRAINED),
        Arm(f"CCD - {title}", detector, "ccd", pretrain=_CCD),
        Arm(f"PMSACL - {title}", detector, "pmsacl", pretrain=_PMSACL),
    ]


def _claims(best: str, rows: list[Arm]) -> tuple[tuple[str, str], ...]:
    return tuple((best, row.label) for row in rows if row.label != best)


def detection() -> Table:
    """Builds Table detection, with the paper's rows and a row for every other registered detector."""
    none = [("DAE", "dae"), ("OCGAN", "ocgan"), ("f-AnoGAN", "f-anogan"), ("ADGAN", "adgan"), ("MS-SSIM", "ms-ssim-ae")]
    comparators = [
        *(Arm(label, name, UNTRAINED) for label, name in none),
        Arm("PANDA", "panda", UNTRAINED),
        Arm("CutPaste", "cutpaste", UNTRAINED),
    ]
    rows = [*comparators, *_on("padim"), *_on("igd")]
    named = {row.detector for row in rows}
    other_names = [name for name in DETECTORS.names() if name not in named]
    other_arms = [Arm(DETECTORS.title(name), name) for name in other_names]
    claims = [
        *(("PMSACL - PaDiM", row.label) for row in [*comparators, *_on("padim")[:2]]),
        *(("PMSACL - IGD", row.label) for row in [*comparators, *_on("igd")[:2]]),
    ]
    return Table("detection", "Anomaly detection", DETECTION, (*rows, *other_arms), tuple(claims))


def localisation() -> Table:
    """Builds Table localisation, in which PaDiM and IGD are each fitted on three encoders."""
    rows = [*_on("padim"), *_on("igd")]
    claims = tuple((f"PMSACL - {d}", f"{o}{d}") for d in ("PaDiM", "IGD") for o in ("CCD - ", ""))
    metrics = (*LOCALISATION, "pro_all")  # the paper's PRO only counts false positives on abnormal images
    return Table("localisation", "Anomaly localisation", metrics, tuple(rows), claims)


def ssl() -> Table:
    """Builds Table ablation_ssl, in which PaDiM is fitted on encoders with different pre-training."""
    rows = [
        Arm("ImageNet", "padim", UNTRAINED),
        Arm("SimCLR", "padim", "simclr"),
        Arm("Rot-Net", "padim", "rotnet"),
        Arm("CSI", "padim", "csi"),
        Arm("DROC", "padim", "droc"),
        Arm("SupCon", "padim", "supcon"),
        Arm("CCD", "padim", "ccd", pretrain=_CCD),
        Arm("PMSACL", "padim", pretrain=_PMSACL),
    ]
    return Table("ssl", "Self-supervised pre-training, PaDiM", DETECTION, tuple(rows), _claims("PMSACL", rows))


def ablation() -> Table:
    """Builds Table ablation, which adds the terms of the loss one by one; l_aug and l_pos are in every row."""
    positions = {"pos_global": True}
    rows = [
        Arm("CCD", "padim", "ccd", pretrain=_CCD),
        Arm("CCD, MedMix", "padim", "ccd", pretrain={"class_views": "weak"}),
        Arm("+ l_PMSACL", "padim", pretrain={**positions, "w_ctr": 0.0, "alpha": 1.0}),
        Arm("+ l_ctr", "padim", pretrain={**positions, "alpha": 1.0}),
        Arm("+ kappa (PMSACL)", "padim", pretrain=positions),
    ]
    claims = tuple((rows[i + 1].label, rows[i].label) for i in range(4))
    return Table("ablation", "Loss terms, PaDiM", ("auroc",), tuple(rows), claims)


def augment() -> Table:
    """Builds a table for Fig. ablation_transformation, which compares six strong augmentations using IGD."""
    names = {
        "Rotation": "rotation", "Permutation": "permutation", "Cutout": "cutout", "Gaussian noise": "noise",
        "CutMix": "cutmix", "MedMix": "medmix",
    }  # fmt: skip
    rows = [Arm(label, "igd", pretrain={"strong": name}) for label, name in names.items()]
    return Table("augment", "Strong augmentations, IGD", ("auroc",), tuple(rows), _claims("MedMix", rows))


def classes() -> Table:
    """Builds a table for Fig. ablation_num_aug, which compares 2 to 8 MedMix classes (with A_0, normal) using PaDiM."""
    rows = [Arm(f"{k + 1} classes", "padim", pretrain={"k": k}) for k in range(1, 8)]
    return Table("classes", "Number of MedMix classes, PaDiM", ("auroc",), tuple(rows), _claims("4 classes", rows))


def centres() -> Table:
    """Builds Table centers_difference, which compares four kinds of class centres using IGD."""
    kinds = {
        "Random": "random", "Equidistant": "equidistant", "Re-estimated": "re-estimated", "Untrained encoder": "frozen",
    }  # fmt: skip
    rows = [Arm(label, "igd", pretrain={"centres": kind}) for label, kind in kinds.items()]
    return Table("centres", "Centring, IGD", ("auroc",), tuple(rows), _claims("Untrained encoder", rows))


def temperature() -> Table:
    """Builds a table that varies alpha and tau of Eq. 7; the paper gives neither values nor results for them."""
    rows = [
        *(Arm(f"alpha {alpha:g}", "padim", pretrain={"alpha": alpha}) for alpha in (0.5, 1.0, 2.0, 4.0)),
        *(Arm(f"tau {tau:g}", "padim", pretrain={"tau": tau}) for tau in (0.07, 0.2, 0.5)),
    ]
    return Table("temperature", "alpha (tau 0.2) and tau (alpha 2), PaDiM", ("auroc",), tuple(rows))


TABLES: dict[str, Callable[[], Table]] = {
    f.__name__: f for f in (detection, localisation, ssl, ablation, augment, classes, centres, temperature)
}


def network_of(budget: str, name: str | None = None, weights: str | None = None) -> Network:
    """Returns the network `name`, which defaults to the network of the budget.

    weights: `imagenet` or a weights file; defaults to the network's own. Raises ValueError if the network is unknown.
    """
    network = NETWORKS.get(name or BUDGETS.get(budget, ""))
    if network is None:
        raise ValueError(f"networks are {', '.join(NETWORKS)}, not {name or budget}")
    return replace(network, weights=weights) if weights else network


def is_starred(arm: Arm) -> bool:
    """Returns whether an arm starts from random weights; the paper marks such rows with an asterisk."""
    return arm.pretrain.get("encoder.init", "random") == "random"


def tables_of(
    names: list[str], budget: str, only: list[str] | None = None, network: Network | None = None
) -> list[Table]:
    """Builds tables whose rows use the presets of a budget and the same network.

    In the budget `quick`, encoders are trained for fewer epochs and some detectors for fewer steps (`QUICK_FIT`), and
    pretrained networks are trained as in the preset `imagenet` (`CAREFUL`). In the budget `paper`, all layers are
    trained, and comparators have their published settings (the detectors' presets `published` and the objectives'
    presets `published-NAME`), except in the ablation, whose rows differ in one setting each.

    Args:
        names: Names of the tables.
        budget: Name of the budget.
        only: Labels of the rows; defaults to all rows.
        network: Network of all rows; defaults to the network of the budget.

    Raises:
        ValueError: If a table, a budget or a label is unknown.
    """
    unknown = [name for name in names if name not in TABLES]
    if unknown or budget not in BUDGETS:
        raise ValueError(
            f"tables are {', '.join(TABLES)} and budgets {', '.join(BUDGETS)}, not {', '.join(unknown) or budget}"
        )
    tables = [TABLES[name]() for name in names]
    labels = {arm.label for table in tables for arm in table.arms}
    if only and set(only) - labels:
        missing = ", ".join(sorted(set(only) - labels))
        raise ValueError(f"no row is called {missing}; choose from: {', '.join(sorted(labels))}")
    return [_with(table, budget, only, network or network_of(budget)) for table in tables]


def _with(table: Table, budget: str, only: list[str] | None, network: Network) -> Table:
    selected = [arm for arm in table.arms if not only or arm.label in only]
    arms = [arm.replace(**_presets(arm, budget, table.name), **_changes(arm, budget, network)) for arm in selected]
    labels = {arm.label for arm in arms}
    claims = tuple(claim for claim in table.claims if set(claim) <= labels)
    return Table(table.name, table.title, table.metrics, tuple(arms), claims)


def _presets(arm: Arm, budget: str, table: str) -> dict[str, str]:
    published_preset = f"published-{arm.encoder}"
    encoder = (
        published_preset
        if budget == "paper" and table != ablation.__name__ and published_preset in PRETRAIN_PRESETS
        else budget
    )
    fits = DETECTORS.get(arm.detector).presets
    return {"preset": encoder, "fit_preset": "published" if budget == "paper" and "published" in fits else budget}


def _changes(arm: Arm, budget: str, network: Network) -> dict[str, dict]:
    start = {"encoder.arch": network.arch, "encoder.init": network.weights}
    if DETECTORS.fact(arm.detector, "own_network", False):
        pretrain = arm.pretrain  # the detector has its own network
    elif arm.encoder == UNTRAINED:
        pretrain = {**start, **arm.pretrain}
    else:
        random = network.weights == "random"
        careful = (FROM_RANDOM if random else {}) if budget == "paper" else ({} if random else CAREFUL)
        quick = QUICK if budget == "quick" else {}
        often = REESTIMATED if budget == "quick" and arm.pretrain.get("centres") == "re-estimated" else {}
        pretrain = {**start, **careful, **quick, **often, **arm.pretrain}
    fit = QUICK_FIT.get(arm.detector, {}) if budget == "quick" else {}
    return {"pretrain": pretrain, "fit": {**fit, **arm.fit}}
