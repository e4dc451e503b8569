"""Routes of the Review tab: opening a study, paging through the worklist, deciding, undoing. Masks: masks.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Interval
from fastapi import APIRouter, Request
from pydantic import Field
from typing_extensions import NotRequired

from app.access.permissions import Reader, Studio
from app.context import Context
from app.routes._shared import Decision, Label, ReviewStage, Rights, ScoredRun, Split, Values
from app.routes._types import Answer, Body, Done, Failed, Finite, Id, Int, Line, Name, Part, Settings, read_cursor
from app.routes.masks import CaseMarks, Finding, MaskVersion
from core.studio.db import audit
from core.studio.ingest.studies import study_row
from core.studio.review import cases, decisions, sessions, worklist
from core.studio.review.context import RequestContext
from core.studio.runs.records import version

router = APIRouter(prefix="/api/review", tags=["review"])

SESSION = ("id", "study", "reader", "blind", "neutral", "shuffled", "choice", "created")  # columns sent to the page
AHEAD = 3  # number of cases that the page fetches in advance


class Travel(Body):
    """Request to undo or redo a decision. `list` contains the worklist's filters and order."""

    study: Name
    token: Name | None = None
    list: Settings | None = None


class NewDecision(Body):
    """Decision to store.

    token: Identifier of the request; a repeated request with the same token stores nothing.
    seconds: Reading time in seconds.
    shown: What the screen showed at the time of the decision, for the audit trail.
    list: The worklist's filters and order, which determine the next case.
    """

    case: Id
    decision: Literal["normal", "abnormal", "unsure"]
    comment: str | None = ""
    seconds: float | None = None
    run: Name | None = None
    shown: Settings | None = None
    adjudication: bool = False
    rating: Annotated[Finite, Interval(ge=0, le=100)] | None = None
    token: Name | None = None
    list: Settings | None = None


class ReviewSettings(Body):
    """Settings to store. `keys` (shortcuts) and `show` (display) belong to the reader, the others to the study."""

    study: Name = ""
    keys: Settings | None = None
    show: Settings | None = None
    labels: Annotated[list[Name], Field(max_length=200)] | None = None
    blind: bool | None = None


class Threshold(Body):
    case: Id
    run: Name | None = None
    before: Finite | None = Field(None, alias="from")
    to: Finite | None = None


class Spacing(Part):
    """Pixel spacing in millimetres. `at` tells whether it applies to the patient or to the detector (projections)."""

    x: float
    y: float
    at: Literal["patient", "detector"]


class FileFacts(Part):
    """Facts about a case's file. `text` tells whether burned-in text is likely (null: unknown).

    patient: First characters of a keyed hash of the patient's identifier.
    shown_from: Pixel values that are displayed as black and as white.
    odd: Invalid values in the file's header.
    """

    format: str
    patient: str | None
    study: str
    added: str
    shown_from: tuple[float, float] | None
    text: bool | None
    odd: list[str]


class Remark(Part):
    words: str
    more: str
    ok: bool


class Reading(Part):
    """Result of a run for a case. `percentile` is relative to held-out normals, `flagged` is 1 or 0."""

    run: str
    score: float | None
    percentile: float | None
    flagged: int | None
    has_map: bool
    words: str
    steady: Remark | None
    members: Remark | None


class OwnReview(Part):
    """Decision of the current reader on a case. `active` is 0 after an undo, else 1."""

    id: int
    decision: Decision
    comment: str
    created: str
    stage: ReviewStage
    active: int


class OthersReview(Part):
    reader: str
    stage: ReviewStage
    decision: Decision
    comment: str


class CaseDetail(Part):
    """Case with the fields that its reader may see.

    Until a blind reader has decided, only the fields up to `findings` are present, with the reader's own findings.
    Even later, blind reading hides `others`, `frames` and `recording`, and neutral names hide `about`. Trials hide all
    four fields and `marks`. `kinds` lists tags that came with the import.
    """

    id: int
    study: str
    v: str
    width: int
    height: int
    bits: int | None
    name: str
    blind: bool
    mine: list[OwnReview]
    findings: NotRequired[list[Finding]]
    frame: NotRequired[int]
    modality: NotRequired[str | None]
    spacing: NotRequired[Spacing | None]
    label: NotRequired[Label]
    split: NotRequired[Split]
    tags: NotRequired[list[str]]
    kinds: NotRequired[list[str]]
    readings: NotRequired[dict[str, Reading | None]]
    masks: NotRequired[list[MaskVersion]]
    marks: NotRequired[CaseMarks]
    about: NotRequired[FileFacts]
    others: NotRequired[list[OthersReview]]
    frames: NotRequired[int]
    recording: NotRequired[int]


class Frame(Part):
    """Result of a run for a frame of a recording or a slice of a volume. `flagged` is 1 or 0."""

    id: int
    frame: int
    percentile: float | None
    score: float | None
    flagged: int | None


class Timeline(Answer):
    frames: list[Frame]


Cursor = tuple[int, str | int | float | None, int]  # index scan (core/studio/review/worklist.py), sort value, case id


class SessionRow(Part):
    """Open reading session. `blind`, `neutral` (case names) and `shuffled` are 1 or 0."""

    id: int
    study: str
    reader: str
    blind: int
    neutral: int
    shuffled: int
    choice: str
    created: str


class PartOfTrial(Part):
    """Requirements of the reader's open trial: ratings from 0 to 100 (`rated`), and lesion locations (`marks`)."""

    rated: bool
    marks: bool


class ReviewSetup(Answer):
    """Data with which the Review tab opens a study. `version` is the version of the studio.

    blind: Whether the study's readers decide before they see AI results.
    blinded: Whether this reader now reads the study blind.
    """

    study: str
    reader: str
    version: str
    rights: Rights
    blind: bool
    blinded: bool
    session: SessionRow | None
    trial: PartOfTrial | None
    runs: list[ScoredRun]
    labels: list[str]
    keys: Values
    show: Values


class WorklistRow(Part):
    """Row of the worklist. The optional fields are missing while the case is hidden from the reader.

    key: Cursor that points to this row.
    flagged: 1 for a flagged case, else 0.
    map: Time at which the heat map was computed, or null.
    kinds: Tags that came with the import.
    why: Reason to annotate this case next, present only if the list is sorted by "teaches".
    """

    id: int
    v: str
    name: str
    decision: Decision | None
    first: Decision | None
    second: Decision | None
    adjudicated: Decision | None
    key: Cursor
    score: NotRequired[float | None]
    percentile: NotRequired[float | None]
    flagged: NotRequired[int | None]
    map: NotRequired[str | None]
    tags: NotRequired[list[str]]
    kinds: NotRequired[list[str]]
    why: NotRequired[str]
    disagreement: NotRequired[float]


class Worklist(Answer):
    rows: list[WorklistRow]
    cursor: Cursor | None


class Counts(Answer):
    total: int
    read: int
    unread: int
    normal: int
    abnormal: int
    unsure: int


class Ahead(Part):
    """Case to fetch in advance. `name` is a neutral name, which is present only if the reader sees neutral names."""

    id: int
    v: str
    bits: int | None
    name: NotRequired[str]


class Entered(Answer):
    case: CaseDetail | None
    ahead: list[Ahead]


class Opened(Answer):
    case: CaseDetail
    ahead: list[Ahead]


class Decided(Answer):
    """Stored decision, with the next case. `review` is the decision's id, or 0 for a blind reader."""

    review: int
    case: int
    stage: ReviewStage
    decision: Decision
    next: CaseDetail | None
    ahead: list[Ahead]


class Reverted(Answer):
    """Result of undoing or redoing a decision.

    review: Id of the decision that was undone or redone, or 0 for a blind reader.
    decision: Decision that counts after undoing or redoing, or null.
    """

    review: int
    case: int
    decision: Decision | None
    next: CaseDetail
    ahead: list[Ahead]


@router.get("/open", response_model=ReviewSetup)
def open_study(ctx: Studio, who: Reader, request: Request, study: Name):
    """Returns the runs, labels, settings and rights with which the Review tab opens a study."""
    with ctx.reading(request, study=study) as context:
        store, name = context.store, context.reader
        return {
            "ok": True,
            "study": study,
            "reader": name,
            "version": version(),
            "rights": context.rights,
            "blind": context.blind,
            "blinded": context.blinded,
            "session": context.session and {k: v for k, v in context.session.items() if k in SESSION},
            "trial": context.trial and {"rated": bool(context.trial["rated"]), "marks": bool(context.trial["marks"])},
            "runs": cases.scored_runs(store, study) if context.trial is None else cases.runs_of_trial(context),
            "labels": decisions.finding_labels(store, study),
            "keys": store.setting(f"keys:{name}", {}),
            "show": store.setting(f"show:{name}", {}),
        }


@router.get("/list", response_model=Worklist)
def listed(
    ctx: Studio,
    who: Reader,
    request: Request,
    study: Name,
    run: Name = "",
    cursor: Line = "",
    limit: Int = worklist.PAGE,
    at: Int = -1,
):
    """Returns a page of the worklist."""
    after = read_cursor(cursor) if cursor else None
    with ctx.reading(request, study=study, run=run) as context:
        listing, names = worklist.Worklist(context, worklist.Query.from_values(request.query_params)), context.names
        if after is not None and names.covers:
            after = listing.key_of(context.of_study([after[2]])[0])
        elif after is None and at > 0:
            after = listing.position(at)
        page = listing.page(after, min(max(limit, 1), 500))
        names.prepare(row["id"] for row in page["rows"])
        rows = [names.shown(row) for row in page["rows"]]
        return {"ok": True, "rows": rows, "cursor": names.cursor(page["cursor"])}


@router.get("/counts", response_model=Counts)
def counts(ctx: Studio, who: Reader, request: Request, study: Name, run: Name = ""):
    """Returns the number of cases in the worklist, in total and by the reader's decision."""
    with ctx.reading(request, study=study, run=run) as context:
        return {"ok": True, **worklist.Worklist(context, worklist.Query.from_values(request.query_params)).counts()}


@router.get("/step", response_model=Entered)
def step(
    ctx: Studio,
    who: Reader,
    request: Request,
    study: Name,
    run: Name = "",
    case: Id = 0,
    back: Int = 0,
    unread: Int = 0,
):
    """Returns the worklist's case after `case` (0: the first) or, with `back`, the case before it (0: the last)."""
    values = {**request.query_params, **({"decision": "unread"} if unread else {})}
    query = worklist.Query.from_values(values)
    with ctx.reading(request, study=study, number=case or None, run=run) as context:
        return _step(context, query, back=bool(back))


def _step(context: RequestContext, query: worklist.Query, back: bool = False) -> dict:
    """Returns the case after the context's case, or the first one, and the following cases to fetch in advance."""
    here = context.case["id"] if context.case else None
    ids = worklist.Worklist(context, query).neighbour(here, backwards=back, count=1 + AHEAD)
    rows = cases.rows_of(context, ids)
    if not rows:
        return {"ok": True, "case": None, "ahead": []}
    as_named = context.names.shown
    ahead = [as_named({"id": r["id"], "v": f"{r['sha256'] or ''}"[:10], "bits": r["bits"]}) for r in rows[1:]]
    return {"ok": True, "case": as_named(cases.detail(context, rows[0])), "ahead": ahead}


@router.get("/case/{case_id}", response_model=Opened)
def case(ctx: Studio, who: Reader, request: Request, case_id: Id, study: Name = "", run: Name = ""):
    """Returns one case, with the fields that its reader may see."""
    with ctx.reading(request, study=study or None, number=case_id, run=run) as context:
        return {"ok": True, "case": context.names.shown(cases.detail(context)), "ahead": []}


@router.post("/decide", response_model=Decided)
def decide(ctx: Studio, who: Reader, request: Request, body: NewDecision):
    """Stores a decision and returns the next case. After a blind decision, returns the same case with AI results."""
    values, query = _list(body)
    with ctx.writing(request, study=values["study"], number=body.case, run=values["run"]) as context:
        if body.adjudication:
            context.demand("adjudicate")
        case_id = context.asked_case["id"]
        blinded = context.hides(case_id) and (context.trial is None or context.two_stages)
        done = decisions.decide(
            context,
            body.decision,
            comment=(body.comment or "")[:4000],
            seconds=_seconds(body.seconds),
            shown=body.shown or {},
            adjudication=body.adjudication,
            rating=body.rating,
            token=body.token,
        )
        number = context.names.number(done["case"])
        if blinded or query is None:
            # The first decision is stored, so the reader may now see the same case with the run's result.
            following = {"case": context.names.shown(cases.detail(context)), "ahead": []}
        else:
            following = _step(context, query)
    return {"ok": True, **_shown(context, done), "case": number, "next": following["case"], "ahead": following["ahead"]}


@router.post("/undo", response_model=Reverted | Failed)
def undo(ctx: Studio, who: Reader, request: Request, body: Travel):
    """Undoes the reader's last decision in the study."""
    return _back(ctx, request, body, decisions.undo, "There is nothing to undo.")


@router.post("/redo", response_model=Reverted | Failed)
def redo(ctx: Studio, who: Reader, request: Request, body: Travel):
    """Redoes the decision that the reader undid most recently."""
    return _back(ctx, request, body, decisions.redo, "There is nothing to redo.")


def _back(ctx: Context, request: Request, body: Travel, act, nothing: str) -> dict:
    values, _ = _list(body)
    with ctx.writing(request, study=values["study"], run=values["run"]) as context:
        reverted = act(context, body.token)
        if reverted is None:
            return {"ok": False, "error": nothing}
        rows = cases.rows_of(context, [reverted["case"]])
        after = context.names.shown(cases.detail(context, rows[0]))
    return {"ok": True, **_shown(context, reverted), "case": after["id"], "next": after, "ahead": []}


@router.post("/settings", response_model=Done)
def settings(ctx: Studio, who: Reader, request: Request, body: ReviewSettings):
    """Stores settings of the reader and, for administrators only, settings of a study."""
    store, name = ctx.store(), who
    if body.labels is not None or body.blind is not None:
        ctx.demand(request, "administer")
        study_row(store, body.study)
    with store.write():  # all or nothing
        for key, values in (("keys", body.keys), ("show", body.show)):
            if values is not None:
                store.set_setting(f"{key}:{name}", values)
        if body.labels is not None:
            decisions.set_labels(store, body.study, body.labels, name)
        if body.blind is not None:
            sessions.set_blind(store, body.study, body.blind, name)
    return {"ok": True}


@router.post("/threshold", response_model=Done)
def threshold(ctx: Studio, who: Reader, request: Request, body: Threshold):
    """Records in the audit trail that the reader has changed the viewer's threshold with the slider."""
    with ctx.writing(request, number=body.case, run=body.run) as context:
        audit.record(
            context.store, context.reader, "threshold", study=context.study, case_id=context.asked_case["id"],
            before=body.before, after=body.to, shown={"run": context.run},
        )  # fmt: skip
    return {"ok": True}


@router.get("/timeline/{case_id}", response_model=Timeline)
def timeline(ctx: Studio, who: Reader, request: Request, case_id: Id, run: Name):
    """Lists a run's results for all frames of the case's recording, or all slices of its volume."""
    with ctx.reading(request, number=case_id, run=run) as context:
        frames = cases.timeline(context)
        context.names.prepare(frame["id"] for frame in frames)
        return {"ok": True, "frames": [{**f, "id": context.names.number(f["id"])} for f in frames]}


def _list(body: NewDecision | Travel) -> tuple[dict[str, Any], worklist.Query | None]:
    """Returns the study and run of a request, and the query of its list, or None if the request has no list.

    Raises ValueError if the request and its list contradict each other, or if an order or filter is invalid.
    """
    values: dict[str, Any] = {"study": getattr(body, "study", None), "run": getattr(body, "run", None) or None}
    if not body.list:
        return values, None
    for name in values:
        value = body.list.get(name)
        if value is not None and not isinstance(value, str):
            raise ValueError(f"the list's {name} is text, not {value!r}")
        if value and values[name] not in (None, value):
            raise ValueError(f"The list is of the {name} {value!r}, the decision of {values[name]!r}. Reload the page.")
        values[name] = values[name] or value or None
    return values, worklist.Query.from_values(body.list)


def _shown(context: RequestContext, stored: dict) -> dict:
    """Returns a stored decision, for a blind reader without its id, which would reveal how many decisions exist."""
    return {**stored, "review": 0} if context.blinded or context.reads_blind else stored


def _seconds(value: float | None) -> float | None:
    return round(value, 3) if value is not None and 0 <= value < 1e6 else None  # other times are implausible
