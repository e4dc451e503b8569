"""Routes of the Results tab: operating points, agreement, changed decisions, Dice by lesion size, predictions."""

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
    """Performance of a run on the test cases, measured against the labels or the readers' decisions.

    roc: Points (false positive rate, true positive rate), or null unless there are normal and abnormal cases.
    cuts: Score threshold for each point of `roc`.
    point: False positive rate and true positive rate at the run's operating point, or null if `roc` is null.
    """

    against: Literal["labels", "readers"]
    run: str
    roc: list[tuple[float, float]] | None
    cuts: list[float]
    auroc: float | None
    point: tuple[float, float] | None


class ConformalThreshold(Part):
    """Conformal threshold, chosen so that at most the fraction `alpha` of normal images scores above it.

    caveat: Limitation of the guarantee, or null.
    paused: Whether the guarantee is suspended because new images differ from the held-out ones.
    held, needed: Available and required number of held-out normals, or of their patients if these are known.
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
    """Operating point of a run, with the reader who chose it and the time.

    threshold: Score above which images are flagged, or null for the default percentile of held-out normals.
    labels: Whether any test case had a label when the reader dragged the threshold.
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
    """Request to change the operating point. `threshold` is required for source "dragged" and ignored otherwise."""

    run: str
    source: Literal["dragged", "limit", "readers", "default"]
    threshold: Finite | None = None


class Evaluate(Body):
    masks: MaskKind = "reference"


class PairAgreement(Kappa):
    """Agreement of two readers. `confusion` counts cases by decision of the first (row) and second reader (column)."""

    readers: list[str]
    agreement: float | None
    confusion: list[list[int]]


class FleissKappa(Kappa):
    readers: int


class Adjudication(Part):
    reader: str
    decision: Decision


class Differing(Part):
    """Case on which readers disagree, with each reader's decision."""

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


class DecisionChanges(Part):
    """Numbers of cases with two decisions by a reader (`both`), and of those with changed decisions (other fields)."""

    both: int
    to_abnormal: int
    to_normal: int
    to_unsure: int
    for_better: int
    for_worse: int
    cases: list[ChangedCase]


class ComparedRow(Part):
    """Row of the table that compares runs, with 95 % confidence intervals in the fields that end in `_ci`.

    run: Id of the run, or null for the baseline.
    cases, localised: Number of evaluated cases with a label, and number with a lesion mask.
    set: Key of the evaluated cases, labels and masks. Rows with equal keys are comparable.
    best: Names of the metrics in which no other row is better; empty unless `set` is the same in all rows.
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
    """Dice of one case, with the size of its lesion as a fraction of the image."""

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
    """Dice by lesion size, for the cases with a lesion mask and a heat map.

    points: Dice of these cases, or of a random sample if there are too many.
    of: Number of these cases before sampling.
    against: Description of the masks that serve as ground truth.
    """

    points: list[SizePoint]
    groups: list[SizeGroup]
    threshold: float
    of: int
    against: str


class PanelCase(Part):
    """Case among the example predictions. `flagged` is 1 for a flagged case, else 0."""

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
    runs: list[ScoredRun]
    agreement: Agreement
    minds: dict[str, DecisionChanges]
    blind: bool


class ResultsOfReaders(_Results):
    """Results of a study that no run has scored."""

    run: None


class ResultsOfRun(_Results):
    """Results of the run with the id `run`.

    minds: Changes from first to second decisions, by reader.
    blind: Whether the study's readers decide before they see AI results.
    masks: Kind of the lesion masks that serve as ground truth.
    counts: Number of cases with a lesion mask of each kind.
    outlined: Fraction of normal test images on which Review outlines a region by default.
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
    """Number of held-out normals that a run flags after a synthetic lesion has been pasted into each image.

    size: Longer side of the lesion as a fraction of the longer side of the image.
    area: Median fraction of pixels that the lesion changes.
    contrast: Opacity of the lesion.
    """

    size: float
    contrast: float
    images: int
    flagged: int
    area: float
    found: Share


class NewImages(Part):
    """Result of a conformal martingale, which tests whether new normal images still score like the held-out ones.

    capital: Largest value that the martingale has reached; 100 raises an alarm.
    since: Day of the alarm, or null.
    caveat: Limitation of the test, or null.
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
    """Ids of held-out cases (`usual`) and new cases that are typical examples of the measure that differs most."""

    usual: list[int]
    new: list[int]


class ChangedImages(Part):
    """Differences between held-out and new images. `of` is the device, or the day of import if no device is known."""

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


class Reliability(Answer):
    """Reliability of a run's threshold and scores.

    planted, plain: Sensitivity to synthetic lesions, and changes in new images; empty until their job has ended.
    enough: Minimum number of normal decisions, and of abnormal decisions, for a calibration.
    """

    promise: ConformalThreshold | None
    planted: list[PlantedLesions]
    changed: NewImages | None
    plain: list[ChangedImages]
    calibration: Calibrated | None
    enough: int
    made: str | None


@router.get("/{study}", response_model=Results)
def everything(ctx: Studio, who: Sighted, study: str, run: Name = "", roi: Int = 1, masks: Name = ""):
    """Returns all results of a run, by default of the run that Review opens with.

    roi: 1 for scores inside the region of interest, 0 for scores of the whole image.
    masks: Kind of the lesion masks that serve as ground truth, "reference" or "readers".
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
    """Changes the operating point of a run and updates the flags of all its cases."""
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
    """Queues the evaluation of all runs that have scored a study, to compare them on the same cases."""
    store = ctx.store()
    args = {"masks": truth_masks(store, study, body.masks).kind}
    steps = [{"step": "evaluate", "run": run["id"], "args": args} for run in cases.scored_runs(store, study)]
    if not steps:
        raise ValueError("No run has scored this study yet.")
    return {"ok": True, "job": jobs.once(store, ["evaluate", steps], lambda: steps)["id"]}


@router.get("/{study}/sizes", response_model=Sizes)
def sizes(ctx: Studio, who: Sighted, study: str, run: Name, masks: Name = ""):
    """Returns Dice by lesion size. The route is slow, because it reads hundreds of masks and heat maps."""
    store = _scored_by(ctx, study, run)
    return {"ok": True} | results.dice_by_size(store, study, run, masks=masks)


@router.get("/{study}/believe", response_model=Reliability)
def believed(ctx: Studio, who: Sighted, study: str, run: Name):
    """Returns the reliability of a run: guarantee, missed synthetic lesions, changes in new images, calibration."""
    store = _scored_by(ctx, study, run)
    return {"ok": True} | believe.reliability(store, study, run)


@router.post("/{study}/believe", response_model=JobNumber)
def plant(ctx: Studio, who: Administrator, study: str, run: Name):
    """Queues a job that pastes synthetic lesions into held-out normals and counts how many of them a run misses."""
    store, steps = _scored_by(ctx, study, run), [{"step": "believe", "run": run}]
    return {"ok": True, "job": jobs.once(store, steps, lambda: steps)["id"]}
