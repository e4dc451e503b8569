"""Options of a reader trial. This module does not load the database, so that commands can list the options quickly."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config, option

RULES = ("centre", "overlap")  # when a mark hits a lesion (analysis.py)
DESIGNS = {
    "crossover": "unaided and aided, separated by a wash-out; half of the readers begin aided",
    "sequential": "each case unaided, then immediately aided",
    "unaided": "unaided only",
}
ARMS = {"crossover": ("unaided", "aided"), "sequential": ("both",), "unaided": ("unaided",)}


@dataclass(frozen=True)
class TrialPlan(Config):
    """Settings of a reader trial."""

    name: str = option("", "Name of the trial.", label="Name", group="Trial")
    readers: tuple[str, ...] = option((), "Accounts with the role reader.", label="Readers", control="hidden")
    design: str = option("crossover", "Arms of each reader.", choices=tuple(DESIGNS), names=DESIGNS, label="Arms")
    run: str = option("", "Run whose scores and heat maps the aided arm shows.", label="Run", control="hidden")
    cases: str = option(
        "all", "All test cases with ground truth, or a random sample.", choices=("all", "drawn"),
        label="Cases", group="Cases and reading",
    )  # fmt: skip
    normal: int = option(20, "Number of normal cases in the sample.", low=2, high=100_000, label="Normal cases")
    abnormal: int = option(20, "Number of abnormal cases in the sample.", low=2, high=100_000, label="Abnormal cases")
    seed: int = option(
        0,
        "Seed of the sample, the order of cases, and the readers who begin with the aided arm.",
        low=0,
        label="Seed",
    )
    washout: int = option(28, "Time between a reader's lists.", unit="days", low=0, high=3650, label="Wash-out")
    repeats: int = option(
        0, "Number of cases that each reader reads again at the end, unaided.", low=0, label="Repeated cases",
    )  # fmt: skip
    scale: str = option(
        "decisions", "Decisions (normal, unsure, abnormal), or also ratings from 0 to 100.",
        choices=("decisions", "percent"), label="Scale",
    )  # fmt: skip
    marks: bool = option(False, "Readers mark each lesion with a point or a box.", label="Mark location")
    rule: str = option(
        "centre", "A mark is a hit if its centre is inside the lesion, or if its box has an IoU of at least 0.1.",
        choices=RULES, label="Hit criterion",
    )  # fmt: skip
    reference: str = option(
        "labels", "Ground truth: imported labels, or the decisions of a panel of readers.", choices=("labels", "panel"),
        label="Ground truth", group="Ground truth and sample size",
    )  # fmt: skip
    panel: tuple[str, ...] = option((), "Members of the panel, whose decisions are the ground truth.", control="hidden")
    blind_to: str = option(
        "the machine and each other", "What the panel did not see, as text for the report.", label="Panel blind to"
    )
    disagreement: str = option(
        "majority", "If the panel disagrees: take the majority, adjudicate, or exclude the case.",
        choices=("majority", "adjudication", "left out"), label="Disagreements",
    )  # fmt: skip
    difference: float = option(
        0.05, "Difference in AUC that the trial should detect.", above=0, below=1, label="Effect size",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name.strip():
            raise BadConfig("A trial needs a name.")
        if len(set(self.readers)) != len(self.readers) or len(self.readers) < 2:
            raise BadConfig("A trial needs at least two different readers.")
        if set(self.readers) & set(self.panel):
            raise BadConfig("A member of the panel cannot be a reader in the trial.")
        if self.reference == "panel" and not self.panel:
            raise BadConfig("Name the members of the panel.")
        if self.design != "unaided" and not self.run:
            raise BadConfig("Name the run that the aided arm shows.")

    @property
    def arms(self) -> tuple[str, ...]:
        """The compared arms: `unaided`, and also `aided` unless the design is `unaided`."""
        return ("unaided",) if self.design == "unaided" else ("unaided", "aided")
