"""Downloads of the Review tab (tables, masks for other tools, the bundle), and imports of bundles and annotations."""

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
    """The result of importing a bundle.

    rows: number of imported rows by table. readers: name in the bundle to name in this home. missing: names of cases
    without an image, and maps without files. changed: names of cases whose image is not the one imported originally.
    """

    study: str
    rows: dict[str, int]
    readers: dict[str, str]
    missing: Missing
    changed: list[str]


class AnnotationsIn(Answer):
    """The result of importing a file of annotations.

    cut: number of shapes cropped at the edge. unknown: file names without a case. passed_over: why shapes were skipped.
    """

    format: str
    cases: int
    findings: int
    cut: int
    unknown: list[str]
    passed_over: list[str]


class ExportWarning(Answer):
    """A warning before a study is exported.

    text: the warning, or null. cases: ids of at most 200 cases with likely burned-in text. servers: names of the
    DICOMweb servers that the reader may send to.
    """

    text: str | None
    cases: list[int]
    servers: list[str]


class Send(Body):
    """The objects to send to a DICOMweb server.

    server: its name in `dicom server`. run: whose maps and scores are sent; "" for the run that Review opens with.
    """

    server: Name
    kinds: Annotated[list[Literal["seg", "map", "sr"]], Field(min_length=1, max_length=3)]
    names: bool = False
    run: Name = ""


def exportable(ctx: Context, request: Request, study: str, run: str = "") -> Store:
    """Returns the store. Raises NotFound for an unknown study or run, and Hidden if the reader reads it blind."""
    with ctx.reading(request, study=study, run=run or None) as context:
        if context.session and context.session["blind"]:
            raise sessions.Hidden("Your blind session of this study is open: end it, then export.")
        if context.blinded and not ctx.single_user:
            raise sessions.Hidden("This study is being read blind: an administrator may export it.")
    return ctx.store()


@router.get("/{study}/warning", response_model=ExportWarning)
def warning(ctx: Studio, who: Reader, request: Request, study: str):
    """Warn of likely burned-in text before an export, in words and with the cases to check."""
    store = exportable(ctx, request, study)
    burned = burned_in.among(store, study)
    servers = dicomweb.servers(store) if ctx.administers(who) else {}
    return {"ok": True, "text": burned_in.warning(burned), "cases": burned["cases"][:200], "servers": [*servers]}


@router.post("/{study}/send", response_model=JobNumber)
def send(ctx: Studio, who: Administrator, request: Request, study: str, body: Send):
    """Queue sending masks, heat maps and reports to a DICOMweb server, which must be registered on this machine."""
    store = exportable(ctx, request, study, body.run)
    options = {"kinds": body.kinds, "keep_names": body.names, "run": body.run or None}
    return {"ok": True, "job": dicomweb.submit_send(store, study, body.server, who, **options)}


@router.post("/{study}/{kind}", **binary("application/zip", "text/csv", "application/json"))
def export(
    ctx: Studio, who: Reader, request: Request, study: str, kind: str, names: Int = 0, run: Name = "", masks: Name = ""
):
    """Export a study, de-identified unless names=1 (administrators).

    kind: a format, or bundle (administrators; keeps names). masks: reference or readers, to export only those masks.
    """
    if kind != "bundle" and kind not in SUFFIXES:
        raise ValueError(f"a study is exported as one of bundle, {', '.join(SUFFIXES)}, not {kind!r}")
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
    """Import a bundle; the body is the zip."""
    async with _received(ctx, request, "a bundle", "in.zip", Limits().bytes) as file:
        result = await run_in_threadpool(lambda: import_bundle(ctx.store(), file, who))
    return {"ok": True, **result}


@router.put("/{study}/annotations", response_model=AnnotationsIn)
async def annotations_in(ctx: Studio, who: Administrator, request: Request, study: str, tool: Name):
    """Import lesions drawn in another tool, matched by file name; the body is the file.

    tool: coco, cvat, label-studio, png or yolo.
    """
    await run_in_threadpool(lambda: exportable(ctx, request, study))  # the answer contains names of cases
    async with _received(ctx, request, "a file of annotations", "This file", LARGEST) as file:
        result = await run_in_threadpool(lambda: import_annotations(ctx.store(), study, file, tool, who))
    return {"ok": True, **result}


@contextlib.asynccontextmanager
async def _received(ctx: Context, request: Request, what: str, name: str, most: int) -> AsyncIterator[Path]:
    """Yields the body as a temporary file. Raises ValueError as soon as it exceeds `most` bytes."""
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
    """Streams the zip while it is written; headers count the images and maps that are missing."""
    head = {
        "Content-Disposition": f'attachment; filename="{bundle.study}-bundle.zip"',
        "X-Burned-In-Text": str(len(bundle.burned_in["cases"])),
        **{f"X-Missing-{kind.title()}": str(len(names)) for kind, names in bundle.missing.items()},
    }
    return StreamingResponse(bundle.chunks(), media_type="application/zip", headers=head)
