"""Routes of the Results tab: operating points, agreement, changed decisions, Dice by size, the prediction panel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field
from typing_extensions import TypeAliasType

from app.access.permissions import Administrator, Sighted, Studio
from app.context import Context
from app.routes._shared import Confusion, Decision, JobNumber, Kappa, Label, ScoredRun, Share
from app.routes._types import Answer, Body, Finite, Int, Name, Part
from core.studio.db.store import NotFound, Store
from core.studio.jobs import queue as jobs
from core.studio.review import agreement, believe, cases, results, sessions
from core.studio.review.results import scored
from core.studio.runs import operating
from core.studio.runs.marks import TRUTHS, truth_masks
from core.studio.runs.operating import in_effect

router = APIRouter(prefix="/api/results", tags=["results"])


Interval = tuple[float, float] | None
MaskKind = Literal["reference", "readers"]


class OperatingPoint(Confusion):
    """A run's performance against the labels, or against the readers.

    roc: (false positive rate, true positive rate), with their thresholds in `cuts`; null if only normal or only
    abnormal cases are known. point: the same two rates at the operating point.
    """

    against: Literal["labels", "readers"]
    run: str
    roc: list[tuple[float, float]] | None
    cuts: list[float]
    auroc: float | None
    point: tuple[float, float] | None


class Promised(Part):
    """The conformal threshold: at most `alpha` of normal images are flagged; of the test normals, `share` were flagged.

    caveat: a limitation of the guarantee, or null. paused: whether it is suspended because images have changed.
    """

    alpha: float
    threshold: float | None
    guarantee: str
    caveat: str | None
    paused: bool
    held: int
    needed: int
    flagged: int
    normals: int
    share: Share


class Chosen(Part):
    """An operating point.

    threshold: null for the percentile of held-out normals. labels: whether labels were known when it was dragged.
    """

    source: Literal["dragged", "limit", "readers", "default"]
    threshold: float | None
    labels: bool
    reader: str
    created: str
    words: str


class ChosenAnswer(Answer):
    chosen: Chosen


class ChoosePoint(Body):
    """An operating point to choose.

    threshold: only for source `dragged`; the other sources compute it. Source `default` resets the run.
    """

    run: str
    source: Literal["dragged", "limit", "readers", "default"]
    threshold: Finite | None = None


class Evaluate(Body):
    masks: MaskKind = "reference"


class PairAgreement(Kappa):
    """The agreement of two readers. confusion: the first reader's decisions in rows, the second's in columns."""

    readers: list[str]
    agreement: float | None
    confusion: list[list[int]]


class FleissKappa(Kappa):
    readers: int


class Adjudication(Part):
    reader: str
    decision: Decision


class Differing(Part):
    """A case on which readers disagree. decisions: by reader."""

    case: int
    name: str
    decisions: dict[str, Decision]
    adjudication: Adjudication | None


class Agreement(Part):
    stage: str
    readers: list[str]
    decisions: list[Decision]
    pairs: list[PairAgreement]
    fleiss: FleissKappa | None
    differ: list[Differing]


class ChangedCase(Part):
    id: int
    name: str
    first: Decision
    second: Decision
    label: Label


class ChangedMind(Part):
    """How a reader's second decisions differ from the first ones."""

    both: int
    to_abnormal: int
    to_normal: int
    to_unsure: int
    for_better: int
    for_worse: int
    cases: list[ChangedCase]


class ComparedRow(Part):
    """A row of the comparison of runs.

    run: null for the baseline. cases: number with a label; localised: with a lesion mask. set: equal for rows with the
    same cases, labels and masks. Intervals (_ci) are 95 %. best: names of the metrics in which no row is better; empty
    if rows differ in `set`.
    """

    run: str | None
    title: str
    name: str
    encoder: str | None
    cases: int | None
    localised: int | None
    set: str | None
    auroc: float | None
    auroc_ci: Interval
    pixel_auroc: float | None
    pixel_auroc_ci: Interval
    dice: float | None
    dice_ci: Interval
    pro: float | None
    pro_ci: Interval
    pro_all: float | None
    pro_all_ci: Interval
    best: list[str]


class SizePoint(Part):
    """A case's Dice and the size of its lesion. size: fraction of the image."""

    case: int
    name: str
    size: float
    dice: float


class SizeGroup(Part):
    from_: Annotated[float, Field(alias="from")]
    to: float
    n: int
    dice: float
    sd: float


class Sizes(Answer):
    """Dice by lesion size.

    of: the number of cases with a lesion mask and a heat map; `points` may be a random sample of them. against: the
    masks, in words.
    """

    points: list[SizePoint]
    groups: list[SizeGroup]
    threshold: float
    of: int
    against: str


class PanelCase(Part):
    """A case of the prediction panel. flagged: 0 or 1."""

    id: int
    name: str
    label: Label
    score: float
    percentile: float
    flagged: int
    right: bool


class Verdict(Part):
    run: str
    title: str
    level: Literal["good", "warn", "bad", "none"]
    words: str
    advice: str
    found: Share
    alarms: Share
    auroc: float | None


class _Results(Answer):
    """minds: by reader, how second decisions changed. blind: whether the study is read blind first."""

    runs: list[ScoredRun]
    agreement: Agreement
    minds: dict[str, ChangedMind]
    blind: bool


class ResultsOfReaders(_Results):
    """The results if no run has scored the study."""

    run: None


class ResultsOfRun(_Results):
    """The results of a run.

    run: its id. masks: the kind of masks used as ground truth; counts: cases with a mask of each kind. outlined: the
    share of normal images on which Review draws an outline by default.
    """

    run: str
    verdicts: list[Verdict]
    labels: OperatingPoint
    readers: OperatingPoint
    outlined: Share
    chosen: Chosen
    history: list[Chosen]
    masks: MaskKind
    counts: dict[MaskKind, int]
    compared: list[ComparedRow]
    panel: list[PanelCase]


Results = TypeAliasType("Results", ResultsOfRun | ResultsOfReaders)


class PlantedLesions(Part):
    """How many planted lesions of a size and contrast a run flags.

    size: the lesion's longer side as a fraction of the image's; area: fraction of changed pixels; contrast: opacity.
    """

    size: float
    contrast: float
    images: int
    flagged: int
    area: float
    found: Share


class NewImages(Part):
    """The result of a test by betting whether new normal images still score like held-out ones.

    capital: the test's maximum capital; 100 raises an alarm. since: day of the alarm, or null. caveat: a limitation.
    """

    cases: int
    capital: float
    since: str | None
    words: str
    caveat: str | None


class ChangedMeasure(Part):
    measure: str
    usual: float
    new: float
    distance: float
    p: float
    matters: bool


class SidesOfChange(Part):
    """Typical cases for the measure that differs most: held-out ones, and new ones."""

    usual: list[int]
    new: list[int]


class ChangedImages(Part):
    """How new images of a device, or of a day's import if the device is unknown, differ from held-out ones."""

    of: str
    pictures: SidesOfChange | None
    rows: list[ChangedMeasure]


class ReliabilityPoint(Share):
    chance: float


class Calibrated(Part):
    method: str
    cases: int
    abnormal: int
    points: list[ReliabilityPoint]
    brier: float
    apart: str


class Believed(Answer):
    """The reliability of a run's scores.

    planted, plain: empty before they are measured. enough: normal and abnormal decisions needed for a calibration.
    """

    promise: Promised | None
    planted: list[PlantedLesions]
    changed: NewImages | None
    plain: list[ChangedImages]
    calibration: Calibrated | None
    enough: int
    made: str | None


@router.get("/{study}", response_model=Results)
def everything(ctx: Studio, who: Sighted, study: str, run: Name = "", roi: Int = 1, masks: Name = ""):
    """Return all results of a run, by default of the one that Review opens with.

    roi: 1 for scores inside the region of interest. masks: reference or readers, the lesion masks used as ground truth.
    """
    store = ctx.store()
    runs = cases.scored_runs(store, study)
    out = {"ok": True, "runs": runs, "run": None, "agreement": agreement.agreement(store, study)}
    out["minds"] = results.changed_minds(store, study)
    out["blind"] = sessions.is_blind(store, study)
    if runs:
        chosen = run if any(r["id"] == run for r in runs) else runs[0]["id"]
        listed = {r["id"] for r in runs if r["first"]} | {chosen}
        read = {run: scored(store, study, run, bool(roi)) for run in listed}
        points = {
            run: results.operating_point(store, study, run, "labels", bool(roi), point) for run, point in read.items()
        }
        points_chosen, truth = in_effect(store, *listed), truth_masks(store, study, masks)
        out |= {
            "run": chosen,
            "chosen": _chosen(points_chosen[chosen]),
            "history": [_chosen(point) for point in operating.history(store, chosen)],
            "verdicts": [results.verdict(r, points[r["id"]], points_chosen[r["id"]]) for r in runs if r["first"]],
            "labels": points[chosen],
            "readers": results.operating_point(store, study, chosen, "readers", bool(roi), read[chosen]),
            "outlined": results.outlined_normals(store, chosen, read[chosen]),
            "masks": truth.kind,
            "counts": {kind: len(truth_masks(store, study, kind).masks) for kind in TRUTHS},
            "compared": results.compared(store, study, runs, bool(roi), truth.kind),
            "panel": results.prediction_panel(store, chosen, read[chosen], 14, bool(roi)),
        }
    return out


def _scored_by(ctx: Context, study: str, run: str) -> Store:
    """Returns the store. Raises NotFound unless the run has scored the study."""
    store: Store = ctx.store()
    if all(r["id"] != run for r in cases.scored_runs(store, study)):
        raise NotFound(f"no run {run!r} has scored {study}")
    return store


@router.post("/{study}/point", response_model=ChosenAnswer)
def choose(ctx: Studio, who: Administrator, study: str, body: ChoosePoint):
    """Move the operating point of a run; the flags in all lists and results are updated."""
    store = _scored_by(ctx, study, body.run)
    threshold, labels, read = None, False, scored(store, study, body.run)
    if body.source == "limit":
        promise = results.promise(store, study, read)
        threshold = promise["threshold"] if promise else None
        if threshold is None:
            needed = f"{promise['needed']}; there are {promise['held']}" if promise else "some; there are none"
            raise ValueError(f"A limit of {100 * operating.LIMIT:g} % needs more held-out normals: {needed}.")
    elif body.source == "readers":
        threshold = results.learnt_threshold(read.test, *results.truth_of(store, study, read.test, "readers"))
    elif body.source == "dragged":
        threshold, labels = body.threshold, bool((read.test.label != "unknown").any())
    return {
        "ok": True,
        "chosen": _chosen(operating.choose(store, study, body.run, body.source, threshold, who, labels)),
    }


def _chosen(point: operating.OperatingPoint) -> dict[str, Any]:
    return {**asdict(point), "words": point.words}


@router.post("/{study}/evaluate", response_model=JobNumber)
def evaluate(ctx: Studio, who: Administrator, study: str, body: Evaluate):
    """Queue the evaluation of all scored runs of a study, to compare them on the same cases."""
    store = ctx.store()
    args = {"masks": truth_masks(store, study, body.masks).kind}
    steps = [{"step": "evaluate", "run": run["id"], "args": args} for run in cases.scored_runs(store, study)]
    if not steps:
        raise ValueError("No run has scored this study yet.")
    return {"ok": True, "job": jobs.once(store, ["evaluate", steps], lambda: steps)["id"]}


@router.get("/{study}/sizes", response_model=Sizes)
def sizes(ctx: Studio, who: Sighted, study: str, run: Name, masks: Name = ""):
    """Return Dice by lesion size.

    A separate route, because it reads some hundred masks and maps of a large study.
    """
    store = _scored_by(ctx, study, run)
    return {"ok": True} | results.dice_by_size(store, study, run, masks=masks)


@router.get("/{study}/believe", response_model=Believed)
def believed(ctx: Studio, who: Sighted, study: str, run: Name):
    """Return what a run's threshold guarantees and misses, whether images changed, and how scores are calibrated."""
    store = _scored_by(ctx, study, run)
    return {"ok": True} | believe.believed(store, study, run)


@router.post("/{study}/believe", response_model=JobNumber)
def plant(ctx: Studio, who: Administrator, study: str, run: Name):
    """Queue a job that measures what a run's threshold misses, with lesions planted into held-out normals."""
    store, steps = _scored_by(ctx, study, run), [{"step": "believe", "run": run}]
    return {"ok": True, "job": jobs.once(store, steps, lambda: steps)["id"]}
