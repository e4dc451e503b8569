"""Ways out of the review room, as downloads: CSV, COCO, PNG masks, DICOM-SEG, bundle; and a bundle's way in."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, StreamingResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from app.routes._types import Int, Name
from core.studio.ingest import burned_in
from core.studio.ingest.studies import study_row
from core.studio.review import blind
from core.studio.review.bundle import BundleWriter, Limits, import_bundle
from core.studio.review.exports.dicom_seg import export_dicom_seg
from core.studio.review.exports.names import names_for
from core.studio.review.exports.pictures import export_coco, export_png
from core.studio.review.exports.tables import export_csv

FORMATS = {"csv": "csv", "coco": "json", "png": "zip", "dicom-seg": "zip", "bundle": "zip"}


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/export", include_in_schema=False)

    def exportable(request: Request, study: str):
        """The store, if the study is there and whoever asks may export it."""
        store = ctx.store()
        study_row(store, study)
        if blind.applies(store, study, ctx.user_of(request)) and not ctx.single_user:
            raise blind.Hidden("This study is being read blind: an administrator may export it.")
        return store

    @router.get("/{study}/warning")
    def warning(request: Request, study: str):
        """What to know before anything goes out: likely burned-in text, in words and as the cases to look at."""
        store = exportable(request, study)
        found = burned_in.among(store, study, look=False)
        return {"ok": True, "text": burned_in.warning(found), "cases": found["cases"][:200]}

    @router.post("/{study}/{kind}")
    def export(request: Request, study: str, kind: str, names: Int = 0, run: Name = ""):
        """De-identified unless names=1 (administrators). A bundle keeps names, and is for administrators."""
        if kind not in FORMATS:
            raise ValueError(f"a study goes out as one of {', '.join(FORMATS)}, not {kind!r}")
        store, who = exportable(request, study), ctx.user_of(request)
        keep = names_for(store, study, who, ctx.single_user, wanted=bool(names) or kind == "bundle").keep
        if kind == "bundle":
            return _streamed(BundleWriter(store, study, who))
        folder = Path(tempfile.mkdtemp(dir=store.home.cache))
        try:
            file, text = _write(store, study, kind, folder, who, keep, run or None)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        gone = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        head = {"X-Burned-In-Text": str(len(text["cases"]))}
        return FileResponse(file, filename=f"{study}-{kind}.{FORMATS[kind]}", background=gone, headers=head)

    @router.post("/bundle")
    async def bundle_in(request: Request):
        """The body is the zip."""
        folder = Path(tempfile.mkdtemp(dir=ctx.home.cache))
        try:
            size, most = 0, Limits().bytes
            with (folder / "in.zip").open("wb") as out:
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise ValueError(f"A bundle has at most {most:,} bytes.")
                    out.write(part)
            who = ctx.user_of(request)
            done = await run_in_threadpool(lambda: import_bundle(ctx.store(), folder / "in.zip", who))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return {"ok": True, **done}

    return router


def _streamed(bundle: BundleWriter) -> StreamingResponse:
    """The zip as it is made, with what is known to be missing in the headers."""
    head = {
        "Content-Disposition": f'attachment; filename="{bundle.study}-bundle.zip"',
        "X-Burned-In-Text": str(len(bundle.burned_in["cases"])),
        **{f"X-Missing-{kind.title()}": str(len(names)) for kind, names in bundle.missing.items()},
    }
    return StreamingResponse(bundle.chunks(), media_type="application/zip", headers=head)


def _write(store, study: str, kind: str, folder: Path, who: str, names: bool, run: str | None) -> tuple[Path, dict]:
    """The file, and what is known of burned-in text in the pictures it speaks of."""
    file = folder / f"{study}.{FORMATS[kind]}"
    if kind == "csv":
        done = export_csv(store, study, file, who, names, run)
    elif kind == "coco":
        done = export_coco(store, study, file, who, names)
    else:
        act = export_png if kind == "png" else export_dicom_seg
        done = act(store, study, folder / "files", who, names)
        if not done["files"]:
            raise ValueError(
                "There is nothing to export: no case of this study "
                + ("has a lesion mask." if kind == "png" else "came as DICOM with a mask.")
            )
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
            for path in sorted((folder / "files").iterdir()):
                out.write(path, path.name)
    return file, done["burned_in"]
