"""Routes for downloads of the Review tab (tables, masks, bundles) and for imports of bundles and annotations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import Field
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from app.access.permissions import Administrator, Reader, Studio
from app.context import Context
from app.routes._shared import JobNumber
from app.routes._types import Answer, Body, Int, Name, Part, binary
from core.studio.bundle import BundleWriter, Limits, import_bundle
from core.studio.db import leftovers
from core.studio.db.store import Store
from core.studio.incoming import dicomweb
from core.studio.ingest import burned_in
from core.studio.review import sessions
from core.studio.review.exports.annotations import LARGEST, import_annotations
from core.studio.review.exports.formats import SUFFIXES, write_form
from core.studio.review.exports.tables import names_for

router = APIRouter(prefix="/api/export", tags=["export"])


class Missing(Part):
    images: list[str]
    maps: list[str]


class Bundle(Answer):
    """Result of importing a bundle.

    rows: Number of imported rows by table of the database.
    readers: Name of each reader in this home, by the reader's name in the bundle.
    missing: Names of cases without an image, and keys of maps without files.
    changed: Names of cases whose image in the bundle differs from the image imported originally.
    """

    study: str
    rows: dict[str, int]
    readers: dict[str, str]
    missing: Missing
    changed: list[str]


class AnnotationsIn(Answer):
    """Result of importing a file of annotations.

    cut: Number of shapes that were cropped at the edge of the image.
    unknown: File names in the annotations that match no case.
    passed_over: Reasons why shapes were skipped.
    """

    format: str
    cases: int
    findings: int
    cut: int
    unknown: list[str]
    passed_over: list[str]


class ExportWarning(Answer):
    """Warning to show before a study is exported.

    text: Text of the warning, or null if there is none.
    cases: Ids of up to 200 cases with likely burned-in text.
    servers: Names of the DICOMweb servers to which the reader may send.
    """

    text: str | None
    cases: list[int]
    servers: list[str]


class Send(Body):
    """Request to send objects to a DICOMweb server.

    server: Name under which `dicom server` has registered the server.
    run: Run whose heat maps and scores are sent; "" for the run that Review opens with.
    """

    server: Name
    kinds: Annotated[list[Literal["seg", "map", "sr"]], Field(min_length=1, max_length=3)]
    names: bool = False
    run: Name = ""


def exportable(ctx: Context, request: Request, study: str, run: str = "") -> Store:
    """Returns the store. Raises NotFound for an unknown study or run, Hidden if the reader reads the study blind."""
    with ctx.reading(request, study=study, run=run or None) as context:
        if context.session and context.session["blind"]:
            raise sessions.Hidden("Your blind session of this study is open. End the session before you export.")
        if context.blinded and not ctx.single_user:
            raise sessions.Hidden("You read this study blind. Ask an administrator to export it.")
    return ctx.store()


@router.get("/{study}/warning", response_model=ExportWarning)
def warning(ctx: Studio, who: Reader, request: Request, study: str):
    """Returns a warning about likely burned-in text, with the cases to check before an export."""
    store = exportable(ctx, request, study)
    burned = burned_in.among(store, study)
    servers = dicomweb.servers(store) if ctx.administers(who) else {}
    return {"ok": True, "text": burned_in.warning(burned), "cases": burned["cases"][:200], "servers": [*servers]}


@router.post("/{study}/send", response_model=JobNumber)
def send(ctx: Studio, who: Administrator, request: Request, study: str, body: Send):
    """Queues a job that sends masks, heat maps and reports to a DICOMweb server registered on this machine."""
    store = exportable(ctx, request, study, body.run)
    options = {"kinds": body.kinds, "keep_names": body.names, "run": body.run or None}
    return {"ok": True, "job": dicomweb.submit_send(store, study, body.server, who, **options)}


@router.post("/{study}/{kind}", **binary("application/zip", "text/csv", "application/json"))
def export(
    ctx: Studio, who: Reader, request: Request, study: str, kind: str, names: Int = 0, run: Name = "", masks: Name = ""
):
    """Exports a study, de-identified unless an administrator sets `names` to 1.

    kind: File format, or "bundle" for a complete copy with names (administrators only).
    masks: "reference" or "readers"; by default, each case's reference mask or else its newest mask by a reader.
    """
    if kind != "bundle" and kind not in SUFFIXES:
        raise ValueError(f"Unknown export format {kind!r}; choose from: bundle, {', '.join(SUFFIXES)}.")
    store = exportable(ctx, request, study, run)
    keep = names_for(store, study, who, ctx.single_user, wanted=bool(names) or kind == "bundle").keep
    if kind == "bundle":
        return _streamed(BundleWriter(store, study, who))
    folder = leftovers.begin(store.home.cache)
    file = folder / f"{study}-{kind}.{SUFFIXES[kind]}"
    try:
        result = write_form(store, study, kind, file, who, keep, run or None, masks)
    except BaseException:
        leftovers.discard(folder)
        raise
    gone = BackgroundTask(leftovers.discard, folder)
    head = {"X-Burned-In-Text": str(len(result["burned_in"]["cases"]))}
    answer = FileResponse(file, filename=file.name, background=gone, headers=head, stat_result=file.stat())
    for mark in ("etag", "last-modified"):  # these describe the temporary file
        del answer.headers[mark]
    return answer


@router.post("/bundle", response_model=Bundle)
async def bundle_in(ctx: Studio, who: Administrator, request: Request):
    """Imports a bundle, sent as a zip in the request's body."""
    async with _received(ctx, request, "a bundle", "in.zip", Limits().bytes) as file:
        result = await run_in_threadpool(lambda: import_bundle(ctx.store(), file, who))
    return {"ok": True, **result}


@router.put("/{study}/annotations", response_model=AnnotationsIn)
async def annotations_in(ctx: Studio, who: Administrator, request: Request, study: str, tool: Name):
    """Imports lesions drawn in another tool from the request's body. They are matched to cases by file name.

    tool: One of coco, cvat, label-studio, png and yolo.
    """
    await run_in_threadpool(lambda: exportable(ctx, request, study))  # the answer contains names of cases
    async with _received(ctx, request, "a file of annotations", "This file", LARGEST) as file:
        result = await run_in_threadpool(lambda: import_annotations(ctx.store(), study, file, tool, who))
    return {"ok": True, **result}


@contextlib.asynccontextmanager
async def _received(ctx: Context, request: Request, what: str, name: str, most: int) -> AsyncIterator[Path]:
    """Yields the request's body as a temporary file. Raises ValueError as soon as the body exceeds `most` bytes."""
    folder, size = leftovers.begin(ctx.home.cache), 0
    try:
        with (folder / name).open("wb") as out:
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise ValueError(f"{what[0].upper()}{what[1:]} has at most {most:,} bytes.")
                out.write(chunk)
        yield folder / name
    finally:
        leftovers.discard(folder)


def _streamed(bundle: BundleWriter) -> StreamingResponse:
    """Returns a response that streams a bundle while it is written. Its headers count missing images and maps."""
    head = {
        "Content-Disposition": f'attachment; filename="{bundle.study}-bundle.zip"',
        "X-Burned-In-Text": str(len(bundle.burned_in["cases"])),
        **{f"X-Missing-{kind.title()}": str(len(names)) for kind, names in bundle.missing.items()},
    }
    return StreamingResponse(bundle.chunks(), media_type="application/zip", headers=head)
