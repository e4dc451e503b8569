"""The options of a reader trial's plan."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config, option

RULES = ("centre", "overlap")  # how a mark may hit a lesion (localised.py)
DESIGNS = {
    "crossover": "without and with the machine, apart in time; half of the readers begin with it",
    "sequential": "each case without the machine, then at once with it",
    "unaided": "without the machine alone",
}
ARMS = {"crossover": ("unaided", "aided"), "sequential": ("both",), "unaided": ("unaided",)}


@dataclass(frozen=True)
class TrialPlan(Config):
    """What a trial is to be."""

    name: str = option("", "What the trial is called.", label="Name", group="Trial")
    readers: tuple[str, ...] = option((), "Accounts of plain readers.", label="Readers", control="hidden")
    design: str = option("crossover", "How each reader reads.", choices=tuple(DESIGNS), names=DESIGNS, label="Arms")
    run: str = option("", "Whose scores and heat maps the aided arm shows.", label="Run", control="hidden")
    cases: str = option(
        "all", "Every test case with a known truth, or a draw.", choices=("all", "drawn"),
        label="Cases", group="Cases and reading",
    )  # fmt: skip
    normal: int = option(20, "Normal cases of a draw.", low=2, high=100_000, label="Normal cases")
    abnormal: int = option(20, "Abnormal cases of a draw.", low=2, high=100_000, label="Abnormal cases")
    seed: int = option(
        0, "Of the draw, of every reader's order, and of who begins with the machine.", low=0, label="Seed"
    )
    washout: int = option(28, "Between a reader's parts.", unit="days", low=0, high=3650, label="Wash-out")
    repeats: int = option(
        0, "Cases that each reader reads once more at the end, without the machine.", low=0,
        label="Cases read again",
    )  # fmt: skip
    scale: str = option(
        "decisions", "What is asked of a case: normal, unsure or abnormal; or a rating from 0 to 100 as well.",
        choices=("decisions", "percent"), label="Scale",
    )  # fmt: skip
    marks: bool = option(False, "Readers mark the place of each lesion by a point or a box.", label="Places")
    rule: str = option(
        "centre", "A mark hits if its centre lies in the lesion, or if its box and the lesion overlap by IoU 0.1.",
        choices=RULES, label="A mark hits by",
    )  # fmt: skip
    reference: str = option(
        "labels", "The truth: labels as imported, or what a panel of readers said.", choices=("labels", "panel"),
        label="Truth", group="Truth and size",
    )  # fmt: skip
    panel: tuple[str, ...] = option(
        (), "Who sits on the panel; their decisions on the cases are there already.", control="hidden"
    )
    blind_to: str = option(
        "the machine and each other", "What the panel did not see, in words.", label="Panel blind to"
    )
    disagreement: str = option(
        "majority", "How the panel's disagreements end: its majority, adjudication, or the case is left out.",
        choices=("majority", "adjudication", "left out"), label="Disagreements",
    )  # fmt: skip
    difference: float = option(
        0.05, "Difference of areas that the trial is to find.", above=0, below=1, label="Difference to find",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name.strip():
            raise BadConfig("A trial has a name.")
        if len(set(self.readers)) != len(self.readers) or len(self.readers) < 2:
            raise BadConfig("A trial takes two readers or more, each once.")
        if set(self.readers) & set(self.panel):
            raise BadConfig("Whoever sits on the panel does not read in the trial.")
        if self.reference == "panel" and not self.panel:
            raise BadConfig("A panel has members: name them.")
        if self.design != "unaided" and not self.run:
            raise BadConfig("An aided arm shows a run: name it.")

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are compared."""
        return ("unaided",) if self.design == "unaided" else ("unaided", "aided")
