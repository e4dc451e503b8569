"""The paper's tables as lists of arms; a detector that is registered and in none of them joins the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.studio.experiments.arm import Arm
from core.studio.experiments.from_imagenet import PRETRAINED
from core.studio.report.published import DETECTION, LOCALISATION
from core.studio.runs.pipeline import UNTRAINED

BUDGETS = ("quick", "paper")
# A ResNet of 0.4 million weights, whose step takes a sixth of ResNet-18's, for half as long: the tables have thirty
# encoders a seed.
QUICK = {"encoder.arch": "test_resnet", "epochs": 4}
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
    """arms: the rows, under the names that the paper gives them. metrics: the columns. claims: pairs (better, than)."""

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
        Arm(title, detector, UNTRAINED, pretrain=PRETRAINED),
        Arm(f"CCD - {title}", detector, "ccd", pretrain=_CCD),
        Arm(f"PMSACL - {title}", detector, "pmsacl", pretrain=_PMSACL),
    ]


def _claims(best: str, rows: list[Arm]) -> tuple[tuple[str, str], ...]:
    return tuple((best, row.label) for row in rows if row.label != best)


def detection() -> Table:
    """Table detection. PANDA and CutPaste start from ImageNet weights, the others from none."""
    none = [("DAE", "dae"), ("OCGAN", "ocgan"), ("f-AnoGAN", "f-anogan"), ("ADGAN", "adgan"), ("MS-SSIM", "ms-ssim-ae")]
    comparators = [
        *(Arm(label, name, UNTRAINED) for label, name in none),
        Arm("PANDA", "panda", UNTRAINED, pretrain=PRETRAINED),
        Arm("CutPaste", "cutpaste", UNTRAINED, pretrain=PRETRAINED),
    ]
    rows = [*comparators, *_on("padim"), *_on("igd")]
    named = {row.detector for row in rows}
    others = [name for name in DETECTORS.names() if name not in named and not DETECTORS.about(name).get("vit")]
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
    """Table ablation_ssl: what PaDiM owes to each pre-training."""
    rows = [
        Arm("ImageNet", "padim", UNTRAINED, pretrain=PRETRAINED),
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
    """Table ablation: the terms of the loss one by one; l_aug and l_pos are in every row."""
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
    """Fig. ablation_transformation: six strong augmentations, IGD."""
    names = {
        "Rotation": "rotation", "Permutation": "permutation", "Cutout": "cutout", "Gaussian noise": "noise",
        "CutMix": "cutmix", "MedMix": "medmix",
    }  # fmt: skip
    rows = [Arm(label, "igd", pretrain={"strong": name}) for label, name in names.items()]
    return Table("augment", "Strong augmentations, IGD", ("auroc",), tuple(rows), _claims("MedMix", rows))


def classes() -> Table:
    """Fig. ablation_num_aug: 2 to 8 classes of MedMix, A_0 among them, PaDiM."""
    rows = [Arm(f"{k + 1} classes", "padim", pretrain={"k": k}) for k in range(1, 8)]
    return Table("classes", "Number of MedMix classes, PaDiM", ("auroc",), tuple(rows), _claims("4 classes", rows))


def centres() -> Table:
    """Table centers_difference: four kinds of centres, IGD, and how often the training collapses."""
    kinds = {
        "Random": "random", "Equidistant": "equidistant", "Re-estimated": "re-estimated", "Untrained encoder": "frozen",
    }  # fmt: skip
    rows = [Arm(label, "igd", pretrain={"centres": kind}) for label, kind in kinds.items()]
    return Table("centres", "Centring, IGD", ("auroc",), tuple(rows), _claims("Untrained encoder", rows))


def temperature() -> Table:
    """alpha and tau of Eq. 7, which the paper does not give; no numbers are printed for them."""
    rows = [
        *(Arm(f"alpha {alpha:g}", "padim", pretrain={"alpha": alpha}) for alpha in (0.5, 1.0, 2.0, 4.0)),
        *(Arm(f"tau {tau:g}", "padim", pretrain={"tau": tau}) for tau in (0.07, 0.2, 0.5)),
    ]
    return Table("temperature", "alpha (tau 0.2) and tau (alpha 2), PaDiM", ("auroc",), tuple(rows))


TABLES: dict[str, Callable[[], Table]] = {
    f.__name__: f for f in (detection, localisation, ssl, ablation, augment, classes, centres, temperature)
}


def tables_of(names: list[str], budget: str, only: list[str] | None = None) -> list[Table]:
    """The tables asked for, every arm on the presets of `budget`; only: no rows but those with these labels.

    Encoders that the quick budget trains are narrow (`QUICK`), and some detectors train for less (`QUICK_FIT`);
    encoders with ImageNet's weights stay what they are. The budget `paper` has comparators as published (presets
    `published` of detectors, `published-NAME` of objectives), but for the ablation: its rows differ in one thing each.

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
    return [_with(table, budget, only) for table in tables]


def _with(table: Table, budget: str, only: list[str] | None) -> Table:
    wanted = [arm for arm in table.arms if not only or arm.label in only]
    arms = [arm.replace(**_presets(arm, budget, table.name), **_changes(arm, budget)) for arm in wanted]
    labels = {arm.label for arm in arms}
    claims = tuple(claim for claim in table.claims if set(claim) <= labels)
    return Table(table.name, table.title, table.metrics, tuple(arms), claims)


def _presets(arm: Arm, budget: str, table: str) -> dict[str, str]:
    own = f"published-{arm.encoder}"
    encoder = own if budget == "paper" and table != ablation.__name__ and own in PRETRAIN_PRESETS else budget
    fits = getattr(DETECTORS.get(arm.detector), "presets", {})
    return {"preset": encoder, "fit_preset": "published" if budget == "paper" and "published" in fits else budget}


def _changes(arm: Arm, budget: str) -> dict[str, dict]:
    if budget != "quick":
        return {}
    network = {} if arm.encoder == UNTRAINED else QUICK
    often = REESTIMATED if arm.pretrain.get("centres") == "re-estimated" else {}
    return {"pretrain": {**network, **often, **arm.pretrain}, "fit": {**QUICK_FIT.get(arm.detector, {}), **arm.fit}}
