"""The Results tab."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from app.routes._answers.shared import Answer, Confusion, Decision, Kappa, Label, ScoredRun, Share

Interval = tuple[float, float] | None


class OperatingPoint(Confusion):
    """roc: (false positive rate, true positive rate); null where only one kind of case is known."""

    against: Literal["labels", "readers"]
    run: str
    roc: list[tuple[float, float]] | None
    auroc: float | None
    point: tuple[float, float] | None


class Promised(Answer):
    """The conformal threshold: at most `alpha` of normal images are flagged; `share` of the test's normals are."""

    alpha: float
    threshold: float | None
    guarantee: str
    held: int
    needed: int
    flagged: int
    normals: int
    share: Share


class PairAgreement(Kappa):
    """confusion: the first reader's decisions by row, the second's by column."""

    readers: list[str]
    agreement: float | None
    confusion: list[list[int]]


class FleissKappa(Kappa):
    readers: int


class Adjudication(Answer):
    reader: str
    decision: Decision


class Differing(Answer):
    """decisions: by reader."""

    case: int
    name: str
    decisions: dict[str, Decision]
    adjudication: Adjudication | None


class Agreement(Answer):
    stage: str
    readers: list[str]
    decisions: list[Decision]
    pairs: list[PairAgreement]
    fleiss: FleissKappa | None
    differ: list[Differing]


class ChangedCase(Answer):
    id: int
    name: str
    first: Decision
    second: Decision
    label: Label


class ChangedMind(Answer):
    """How a reader's second decisions differ from the first ones."""

    both: int
    to_abnormal: int
    to_normal: int
    to_unsure: int
    for_better: int
    for_worse: int
    cases: list[ChangedCase]


class ComparedRow(Answer):
    """run: null for the baseline. Intervals are of 95 %. best: names of the measures in which no row is better."""

    run: str | None
    title: str
    name: str
    encoder: str | None
    auroc: float | None
    auroc_ci: Interval
    pixel_auroc: float | None
    pixel_auroc_ci: Interval
    dice: float | None
    dice_ci: Interval
    pro: float | None
    pro_ci: Interval
    best: list[str]


class SizePoint(Answer):
    """size: part of the image."""

    case: int
    name: str
    size: float
    dice: float


class SizeGroup(Answer):
    from_: Annotated[float, Field(alias="from")]
    to: float
    n: int
    dice: float
    sd: float


class Sizes(Answer):
    """of: how many cases have a lesion mask and a heat map, of which `points` may be a part drawn by chance."""

    points: list[SizePoint]
    groups: list[SizeGroup]
    threshold: float
    of: int


class PanelCase(Answer):
    """flagged: 0 or 1."""

    id: int
    name: str
    label: Label
    score: float
    percentile: float
    flagged: int
    right: bool


class Verdict(Answer):
    run: str
    title: str
    level: Literal["good", "warn", "bad", "none"]
    words: str
    advice: str
    found: Share
    alarms: Share
    auroc: float | None


class ResultsOfReaders(Answer):
    """Where no run has scored the study. minds: by reader."""

    runs: list[ScoredRun]
    run: None
    agreement: Agreement
    minds: dict[str, ChangedMind]
    blind: bool


class ResultsOfRun(Answer):
    """run: the one that the figures are of. minds: by reader."""

    runs: list[ScoredRun]
    run: str
    agreement: Agreement
    minds: dict[str, ChangedMind]
    blind: bool
    verdicts: list[Verdict]
    labels: OperatingPoint
    readers: OperatingPoint
    promise: Promised | None
    compared: list[ComparedRow]
    panel: list[PanelCase]


Results = TypeAliasType("Results", ResultsOfRun | ResultsOfReaders)


ANSWERS: dict[str, Any] = {"GET /api/results/{study}": Results, "GET /api/results/{study}/sizes": Sizes}
BINARY: dict[str, tuple[str, ...]] = {}
