"""Readers' marks on a case: findings, lesion masks and their versions, areas called normal, unsaved drawings.

Every answer has `ok`; errors are sentences (errors.py)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from app.access.permissions import Reader, Studio
from app.context import Context
from app.routes import _pixels as pixels
from app.routes._shared import Rectangle
from app.routes._types import Answer, Body, Done, Finite, Id, Line, Name, Part, binary
from core.studio.db.store import NotFound
from core.studio.review import decisions, masks
from core.studio.review.context import RequestContext

router = APIRouter(prefix="/api/review", tags=["review"])


class NewFinding(Body):
    """A finding to add to a case.

    box: x0, y0, x1, y1 in pixels of the image; for a point both corners are equal. rating: 0 to 100, in a trial.
    """

    case: Id
    label: Name
    comment: Line = ""
    box: Annotated[list[Finite], Field(min_length=4, max_length=4)] | None = None
    rating: Finite | None = None


class Finding(Part):
    """A finding on a case. box: in pixels of the image; for a point both corners are equal."""

    id: int
    label: str
    comment: str
    reader: str
    created: str
    mask_version: int | None
    box: Rectangle | None


class Findings(Answer):
    findings: list[Finding]


@router.post("/finding", response_model=Findings)
def add(ctx: Studio, who: Reader, request: Request, body: NewFinding):
    """Add a finding to a case."""
    box = (body.box[0], body.box[1], body.box[2], body.box[3]) if body.box else None
    with ctx.writing(request, number=body.case) as context:
        context.demand_marks()
        decisions.add_finding(context, body.label, body.comment, box=box, rating=body.rating)
        return {"ok": True, "findings": decisions.findings_of(context, context.asked_case["id"])}


@router.delete("/finding/{finding}", response_model=Findings)
def remove(ctx: Studio, who: Reader, request: Request, finding: Id):
    """Remove one's own finding."""
    case = decisions.case_of_finding(ctx.store(), finding, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_marks()
        decisions.remove_finding(context, finding)
        return {"ok": True, "findings": decisions.findings_of(context, case)}


class MaskVersion(Part):
    """A version of a lesion mask. reference: whether it is the ground truth for metrics; others are readers' masks."""

    id: int
    case_id: int
    version: int
    source: Literal["import", "hand", "run"]
    reader: str | None
    created: str
    run: str | None
    threshold: float | None
    note: str | None
    reference: bool


class CaseMarks(Part):
    """A reader's statements on the marks of a case.

    finished: whether all lesions are marked. normal: whether areas are marked as normal.
    """

    finished: bool
    normal: bool


class SavedMarks(Answer):
    marks: CaseMarks


class Finished(Body):
    finished: bool


class Versions(Answer):
    masks: list[MaskVersion]


class RestoredMask(Answer):
    mask: int
    version: int
    pixels: int
    masks: list[MaskVersion]


class SavedMask(RestoredMask):
    findings: list[Finding]


@router.post("/mask/{case_id}", response_model=SavedMask)
async def save_mask(
    ctx: Studio,
    who: Reader,
    request: Request,
    case_id: Id,
    source: Name = "hand",
    run: Name = "",
    threshold: Finite | None = None,
    note: Line = "",
    label: Name = "",
):
    """Save a lesion mask; the body holds its bits (in the format of mask.bits).

    label: if given, a finding with this label is stored as well.
    """
    bits = await request.body()
    facts = {"source": source, "run": run, "threshold": threshold, "note": note, "label": label}
    return await run_in_threadpool(_save, ctx, request, case_id, bits, facts)


def _save(ctx: Context, request: Request, case_id: int, bits: bytes, facts: dict) -> dict:
    label = facts["label"]
    with ctx.writing(request, number=case_id, run=facts["run"]) as context:
        context.demand_open()
        saved = masks.save(
            context,
            pixels.of_bits(context.asked_case, bits),
            source=facts["source"],
            threshold=facts["threshold"],
            note=(facts["note"] or label)[:2000],
        )
        if label:
            decisions.add_finding(context, label, facts["note"], saved["version"])
        findings = decisions.findings_of(context, context.asked_case["id"])
        return {"ok": True, **_saved(context, saved), "findings": findings}


@router.post("/finished/{case_id}", response_model=SavedMarks)
def finish(ctx: Studio, who: Reader, request: Request, case_id: Id, body: Finished):
    """State that all lesions of a case are marked, so that unmarked areas are learnt as normal, or withdraw that."""
    with ctx.writing(request, number=case_id) as context:
        context.demand_open()
        return {"ok": True, "marks": masks.set_finished(context, body.finished)}


@router.get("/normal/{case_id}", **binary("application/octet-stream"))
def normal_places(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Return the areas that the reader marked as normal, in the format of mask.bits; an error if there are none."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
        png = masks.normal_places(context)
    if png is None:
        raise NotFound("No place of this case is called normal.")
    head, body = pixels.bits(masks.decode_mask(png))
    return Response(body, media_type="application/octet-stream", headers=head)


@router.post("/normal/{case_id}", response_model=SavedMarks)
async def save_normal_places(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Save the areas marked as normal; the body holds their bits (in the format of mask.bits).

    If no bit is set they are removed.
    """
    bits = await request.body()

    def kept() -> dict:
        with ctx.writing(request, number=case_id) as context:
            context.demand_open()
            return {"ok": True, "marks": masks.set_normal_places(context, pixels.of_bits(context.asked_case, bits))}

    return await run_in_threadpool(kept)


def _saved(context: RequestContext, saved: dict) -> dict:
    """Describes a saved mask, and the case's versions as the reader numbers them."""
    number = masks.version_shown(context, context.asked_case["id"], saved["version"])
    return {**saved, "version": number, "masks": _versions(context)}


def _versions(context: RequestContext) -> list[dict]:
    return [context.names.shown(mask) for mask in masks.versions(context, context.asked_case["id"])]


@router.post("/restore/{mask_id}", response_model=RestoredMask)
def restore(ctx: Studio, who: Reader, request: Request, mask_id: Id):
    """Save an older version of a lesion mask as the newest."""
    case = masks.case_of(ctx.store(), mask_id, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_open()
        return {"ok": True, **_saved(context, masks.restore(context, mask_id))}


@router.post("/reference/{mask_id}", response_model=Versions)
def make_reference(ctx: Studio, who: Reader, request: Request, mask_id: Id):
    """Make a version the case's reference mask, the ground truth for metrics (adjudicators and administrators)."""
    case = masks.case_of(ctx.store(), mask_id, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_open()
        masks.make_reference(context, mask_id)
        return {"ok": True, "masks": _versions(context)}


class Draft(Part):
    """An unsaved drawing. id: number of its case."""

    id: int
    updated: str


class Drafts(Answer):
    drafts: list[Draft]


@router.get("/drafts", response_model=Drafts)
def listed(ctx: Studio, who: Reader, request: Request, study: Name):
    """List the reader's unsaved drawings, by case."""
    with ctx.reading(request, study=study) as context:
        rows = masks.list_drafts(context)
        context.names.prepare(row["id"] for row in rows)
        return {"ok": True, "drafts": [{**row, "id": context.names.number(row["id"])} for row in rows]}


@router.get("/draft/{case_id}", **binary("application/octet-stream"))
def body(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Return an unsaved drawing as it was stored."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
        draft = masks.draft_body(context)
    return Response(draft, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.post("/draft/{case_id}", response_model=Done)
async def keep(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Store an unsaved drawing; the body is stored unchanged, in a format that only the page reads."""
    content = await request.body()
    await run_in_threadpool(change, ctx, request, case_id, lambda context: masks.keep_draft(context, content))
    return {"ok": True}


@router.delete("/draft/{case_id}", response_model=Done)
def drop(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Discard an unsaved drawing."""
    change(ctx, request, case_id, masks.drop_draft)
    return {"ok": True}


def change(ctx: Context, request: Request, case_id: int, act) -> None:
    """Runs `act` with a request's context. Raises Hidden if the case is hidden from the reader, or in a trial."""
    with ctx.writing(request, number=case_id) as context:
        context.demand_open()
        act(context)
