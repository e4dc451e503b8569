"""The paper's tables as lists of arms; a detector that is registered and in none of them joins the first.

All rows of a report are of one network and one start (`NETWORKS`): what a row owes to its method is not mixed with
what it owes to another backbone, or to ImageNet's weights.
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


@dataclass(frozen=True)
class Network:
    """The backbone of all rows, and what it starts from: weights, as `encoder.init` has it. title: the backbone's."""

    arch: str
    title: str
    weights: str = "random"

    @property
    def words(self) -> str:
        """The backbone and its start, for people."""
        starts = {
            "random": "from random weights",
            "imagenet": "from ImageNet's weights",
            "auto": "from ImageNet's weights (EfficientNet-lite0 where those are not on this machine)",
        }
        return f"{self.title}, {starts.get(self.weights, f'from the weights in {Path(self.weights).name}')}"


NETWORKS = {
    # Its step takes a sixth of ResNet-18's: the tables have thirty encoders a seed.
    "narrow": Network("test_resnet", "ResNet of 0.4 million weights"),
    "lite0": Network(ARCH, "EfficientNet-lite0", "imagenet"),
    "resnet18": Network("resnet18", "ResNet-18", "auto"),
}
BUDGETS = {"quick": "narrow", "paper": "resnet18"}  # and the network of each where none is asked for
# What keeps pretrained weights from being unlearnt in a short training, for all objectives alike.
CAREFUL = {name: getattr(PRETRAIN_PRESETS["imagenet"], name) for name in ("frozen", "frozen_norm", "backbone_rate")}
# From random weights, as the preset from-random has it: `paper` would collapse.
FROM_RANDOM = {"encoder.unit": False, "w_ctr": PRETRAIN_PRESETS["from-random"].w_ctr}
QUICK = {"epochs": 4}  # half as long
REESTIMATED = {"reestimate_every": 1}  # by default every fifth epoch, which so short a training does not reach
# A detector that trains on each of them takes fewer steps, too.
QUICK_FIT = {
    "igd": {"max_steps": 150},
    "lesion-head": {"steps": 150},
    "combined": {"head.steps": 150},
    "blend-head": {"head.steps": 150},
    "ensemble": {"head.steps": 150},
}


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    arms: the rows, under the names that the paper gives them. metrics: the columns. claims: pairs (better, than).
    """

    name: str
    title: str
    metrics: tuple[str, ...]
    arms: tuple[Arm, ...]
    claims: tuple[tuple[str, str], ...] = field(default=())


_PMSACL: dict = {}
_CCD = {"strong": "permutation", "class_views": "weak"}  # with MedMix it is a row of the ablation


def _on(detector: str) -> list[Arm]:
    """A detector on the three encoders of Tables detection and localisation."""
    title = DETECTORS.title(detector)
    return [
        Arm(title, detector, UNTRAINED),
        Arm(f"CCD - {title}", detector, "ccd", pretrain=_CCD),
        Arm(f"PMSACL - {title}", detector, "pmsacl", pretrain=_PMSACL),
    ]


def _claims(best: str, rows: list[Arm]) -> tuple[tuple[str, str], ...]:
    return tuple((best, row.label) for row in rows if row.label != best)


def detection() -> Table:
    """Builds Table detection: the paper's rows, and every further detector."""
    none = [("DAE", "dae"), ("OCGAN", "ocgan"), ("f-AnoGAN", "f-anogan"), ("ADGAN", "adgan"), ("MS-SSIM", "ms-ssim-ae")]
    comparators = [
        *(Arm(label, name, UNTRAINED) for label, name in none),
        Arm("PANDA", "panda", UNTRAINED),
        Arm("CutPaste", "cutpaste", UNTRAINED),
    ]
    rows = [*comparators, *_on("padim"), *_on("igd")]
    named = {row.detector for row in rows}
    others = [name for name in DETECTORS.names() if name not in named]
    further = [Arm(DETECTORS.title(name), name) for name in others]
    claims = [
        *(("PMSACL - PaDiM", row.label) for row in [*comparators, *_on("padim")[:2]]),
        *(("PMSACL - IGD", row.label) for row in [*comparators, *_on("igd")[:2]]),
    ]
    return Table("detection", "Anomaly detection", DETECTION, (*rows, *further), tuple(claims))


def localisation() -> Table:
    rows = [*_on("padim"), *_on("igd")]
    claims = tuple((f"PMSACL - {d}", f"{o}{d}") for d in ("PaDiM", "IGD") for o in ("CCD - ", ""))
    metrics = (*LOCALISATION, "pro_all")  # the paper counts false positives on abnormal images alone
    return Table("localisation", "Anomaly localisation", metrics, tuple(rows), claims)


def ssl() -> Table:
    """Builds Table ablation_ssl: what PaDiM owes to each pre-training."""
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
    """Builds Table ablation: the terms of the loss one by one; l_aug and l_pos are in every row."""
    places = {"pos_global": True}
    rows = [
        Arm("CCD", "padim", "ccd", pretrain=_CCD),
        Arm("CCD, MedMix", "padim", "ccd", pretrain={"class_views": "weak"}),
        Arm("+ l_PMSACL", "padim", pretrain={**places, "w_ctr": 0.0, "alpha": 1.0}),
        Arm("+ l_ctr", "padim", pretrain={**places, "alpha": 1.0}),
        Arm("+ kappa (PMSACL)", "padim", pretrain=places),
    ]
    claims = tuple((rows[i + 1].label, rows[i].label) for i in range(4))
    return Table("ablation", "Loss terms, PaDiM", ("auroc",), tuple(rows), claims)


def augment() -> Table:
    """Builds a table for Fig. ablation_transformation: six strong augmentations, IGD."""
    names = {
        "Rotation": "rotation", "Permutation": "permutation", "Cutout": "cutout", "Gaussian noise": "noise",
        "CutMix": "cutmix", "MedMix": "medmix",
    }  # fmt: skip
    rows = [Arm(label, "igd", pretrain={"strong": name}) for label, name in names.items()]
    return Table("augment", "Strong augmentations, IGD", ("auroc",), tuple(rows), _claims("MedMix", rows))


def classes() -> Table:
    """Builds a table for Fig. ablation_num_aug: 2 to 8 classes of MedMix, A_0 among them, PaDiM."""
    rows = [Arm(f"{k + 1} classes", "padim", pretrain={"k": k}) for k in range(1, 8)]
    return Table("classes", "Number of MedMix classes, PaDiM", ("auroc",), tuple(rows), _claims("4 classes", rows))


def centres() -> Table:
    """Builds Table centers_difference: four kinds of centres, IGD, and how often the training collapses."""
    kinds = {
        "Random": "random", "Equidistant": "equidistant", "Re-estimated": "re-estimated", "Untrained encoder": "frozen",
    }  # fmt: skip
    rows = [Arm(label, "igd", pretrain={"centres": kind}) for label, kind in kinds.items()]
    return Table("centres", "Centring, IGD", ("auroc",), tuple(rows), _claims("Untrained encoder", rows))


def temperature() -> Table:
    """Builds a table for alpha and tau of Eq. 7, which the paper does not give; no numbers are printed for them."""
    rows = [
        *(Arm(f"alpha {alpha:g}", "padim", pretrain={"alpha": alpha}) for alpha in (0.5, 1.0, 2.0, 4.0)),
        *(Arm(f"tau {tau:g}", "padim", pretrain={"tau": tau}) for tau in (0.07, 0.2, 0.5)),
    ]
    return Table("temperature", "alpha (tau 0.2) and tau (alpha 2), PaDiM", ("auroc",), tuple(rows))


TABLES: dict[str, Callable[[], Table]] = {
    f.__name__: f for f in (detection, localisation, ssl, ablation, augment, classes, centres, temperature)
}


def network_of(budget: str, name: str | None = None, weights: str | None = None) -> Network:
    """Returns the network of all rows: `name` or the budget's own, from `weights` or else from its own start.

    weights: `imagenet`, or a file. Raises ValueError on a name that there is not.
    """
    network = NETWORKS.get(name or BUDGETS.get(budget, ""))
    if network is None:
        raise ValueError(f"networks are {', '.join(NETWORKS)}, not {name or budget}")
    return replace(network, weights=weights) if weights else network


def said(network: Network) -> str:
    """Says in a sentence what network all rows of a table have."""
    return f"All rows: {network.words}."


def is_starred(arm: Arm) -> bool:
    """Says whether a row makes no use of ImageNet's weights, which the paper marks by an asterisk."""
    return arm.pretrain.get("encoder.init", "random") == "random"


def tables_of(
    names: list[str], budget: str, only: list[str] | None = None, network: Network | None = None
) -> list[Table]:
    """Returns the tables asked for, every arm on the presets of `budget` and one network; only: no rows but those.

    network: of all rows, by default `network_of(budget)`. In the quick budget what starts from ImageNet learns as the
    preset `imagenet` has it (`CAREFUL`), whatever the objective; it trains for fewer epochs, and some detectors for
    less (`QUICK_FIT`). In the budget `paper` all layers learn, and comparators are as published (presets `published` of
    detectors, `published-NAME` of objectives), but for the ablation: its rows differ in one thing each.

    Raises ValueError on a table, a budget or a label that there is not.
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
        raise ValueError(f"no row is called {missing}; there are: {', '.join(sorted(labels))}")
    return [_with(table, budget, only, network or network_of(budget)) for table in tables]


def _with(table: Table, budget: str, only: list[str] | None, network: Network) -> Table:
    wanted = [arm for arm in table.arms if not only or arm.label in only]
    arms = [arm.replace(**_presets(arm, budget, table.name), **_changes(arm, budget, network)) for arm in wanted]
    labels = {arm.label for arm in arms}
    claims = tuple(claim for claim in table.claims if set(claim) <= labels)
    return Table(table.name, table.title, table.metrics, tuple(arms), claims)


def _presets(arm: Arm, budget: str, table: str) -> dict[str, str]:
    own = f"published-{arm.encoder}"
    encoder = own if budget == "paper" and table != ablation.__name__ and own in PRETRAIN_PRESETS else budget
    fits = DETECTORS.get(arm.detector).presets
    return {"preset": encoder, "fit_preset": "published" if budget == "paper" and "published" in fits else budget}


def _changes(arm: Arm, budget: str, network: Network) -> dict[str, dict]:
    start = {"encoder.arch": network.arch, "encoder.init": network.weights}
    if DETECTORS.fact(arm.detector, "own_network", False):
        pretrain = arm.pretrain  # made once, for the tables of every network
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
