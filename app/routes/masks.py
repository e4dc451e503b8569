"""Routes for a reader's annotations of a case: findings, lesion masks, areas annotated as normal, unsaved drawings."""

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
    """Finding to add to a case.

    box: Corners of a box, x0, y0, x1, y1 in pixels of the image. For a point, both corners are equal.
    rating: Confidence from 0 to 100, which some trials require.
    """

    case: Id
    label: Name
    comment: Line = ""
    box: Annotated[list[Finite], Field(min_length=4, max_length=4)] | None = None
    rating: Finite | None = None


class Finding(Part):
    """Finding on a case. `box` is in pixels of the image; for a point, its two corners are equal."""

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
    """Adds a finding to a case."""
    box = (body.box[0], body.box[1], body.box[2], body.box[3]) if body.box else None
    with ctx.writing(request, number=body.case) as context:
        context.demand_marks()
        decisions.add_finding(context, body.label, body.comment, box=box, rating=body.rating)
        return {"ok": True, "findings": decisions.findings_of(context, context.asked_case["id"])}


@router.delete("/finding/{finding}", response_model=Findings)
def remove(ctx: Studio, who: Reader, request: Request, finding: Id):
    """Removes one of the reader's own findings."""
    case = decisions.case_of_finding(ctx.store(), finding, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_marks()
        decisions.remove_finding(context, finding)
        return {"ok": True, "findings": decisions.findings_of(context, case)}


class MaskVersion(Part):
    """Version of a lesion mask. `reference` is true if the mask serves as ground truth, false if it is a reader's."""

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
    """Statements of a reader about the annotations of a case.

    finished: Whether the reader has stated that all lesions are annotated.
    normal: Whether the reader has annotated areas as normal.
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
    """Saves a lesion mask from the request's body, which has the format of mask.bits.

    label: Label of a finding to add with the mask; "" for none.
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
    """Stores whether all lesions of a case are annotated. If so, detectors may learn all other areas as normal."""
    with ctx.writing(request, number=case_id) as context:
        context.demand_open()
        return {"ok": True, "marks": masks.set_finished(context, body.finished)}


@router.get("/normal/{case_id}", **binary("application/octet-stream"))
def normal_places(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Returns the areas that the reader annotated as normal, in the format of mask.bits, or 404 if there are none."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
        png = masks.normal_places(context)
    if png is None:
        raise NotFound("You have annotated no area of this case as normal.")
    head, body = pixels.bits(masks.decode_mask(png))
    return Response(body, media_type="application/octet-stream", headers=head)


@router.post("/normal/{case_id}", response_model=SavedMarks)
async def save_normal_places(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Saves the areas annotated as normal, sent in the format of mask.bits. An empty mask removes them."""
    bits = await request.body()

    def kept() -> dict:
        with ctx.writing(request, number=case_id) as context:
            context.demand_open()
            return {"ok": True, "marks": masks.set_normal_places(context, pixels.of_bits(context.asked_case, bits))}

    return await run_in_threadpool(kept)


def _saved(context: RequestContext, saved: dict) -> dict:
    """Describes a saved mask and all versions of the case's mask, numbered as the reader sees them."""
    number = masks.version_shown(context, context.asked_case["id"], saved["version"])
    return {**saved, "version": number, "masks": _versions(context)}


def _versions(context: RequestContext) -> list[dict]:
    return [context.names.shown(mask) for mask in masks.versions(context, context.asked_case["id"])]


@router.post("/restore/{mask_id}", response_model=RestoredMask)
def restore(ctx: Studio, who: Reader, request: Request, mask_id: Id):
    """Saves an older version of a lesion mask as the newest one."""
    case = masks.case_of(ctx.store(), mask_id, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_open()
        return {"ok": True, **_saved(context, masks.restore(context, mask_id))}


@router.post("/reference/{mask_id}", response_model=Versions)
def make_reference(ctx: Studio, who: Reader, request: Request, mask_id: Id):
    """Makes a mask version the case's reference mask, its ground truth (adjudicators and administrators only)."""
    case = masks.case_of(ctx.store(), mask_id, who)
    with ctx.writing(request, case_id=case) as context:
        context.demand_open()
        masks.make_reference(context, mask_id)
        return {"ok": True, "masks": _versions(context)}


class Draft(Part):
    """Unsaved drawing. `id` is the number of its case."""

    id: int
    updated: str


class Drafts(Answer):
    drafts: list[Draft]


@router.get("/drafts", response_model=Drafts)
def listed(ctx: Studio, who: Reader, request: Request, study: Name):
    """Lists the reader's unsaved drawings in a study."""
    with ctx.reading(request, study=study) as context:
        rows = masks.list_drafts(context)
        context.names.prepare(row["id"] for row in rows)
        return {"ok": True, "drafts": [{**row, "id": context.names.number(row["id"])} for row in rows]}


@router.get("/draft/{case_id}", **binary("application/octet-stream"))
def body(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Returns an unsaved drawing as it was stored."""
    with ctx.reading(request, number=case_id) as context:
        context.demand_open()
        draft = masks.draft_body(context)
    return Response(draft, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.post("/draft/{case_id}", response_model=Done)
async def keep(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Stores an unsaved drawing. The request's body is stored unchanged, because only the page reads its format."""
    content = await request.body()
    await run_in_threadpool(change, ctx, request, case_id, lambda context: masks.keep_draft(context, content))
    return {"ok": True}


@router.delete("/draft/{case_id}", response_model=Done)
def drop(ctx: Studio, who: Reader, request: Request, case_id: Id):
    """Discards an unsaved drawing."""
    change(ctx, request, case_id, masks.drop_draft)
    return {"ok": True}


def change(ctx: Context, request: Request, case_id: int, act) -> None:
    """Calls `act` with the request's context. Raises Hidden in trials, and if the case is hidden from the reader."""
    with ctx.writing(request, number=case_id) as context:
        context.demand_open()
        act(context)
