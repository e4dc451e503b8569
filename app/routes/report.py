"""The Report tab: the paper's tables on a study as far as they are made, what makes the rest, and the files written."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import FileResponse

from app.routes import _bodies as bodies
from app.routes._types import Int, Name, Seeds
from core.studio.db.store import NotFound
from core.studio.ingest.studies import show_study
from core.studio.report import asked
from core.studio.report.board import board
from core.studio.report.tables import TABLES


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/report", include_in_schema=False)

    @router.get("/{study}")
    def show(study: str, seeds: Seeds = 2, budget: Name = "quick", protocol: Name = "paper", roi: Int = 0):
        store = ctx.store()
        settings = asked.settings(store, study, seeds=seeds, budget=budget, protocol=protocol)
        choices = {"tables": [{"name": name, "title": make().title} for name, make in TABLES.items()]}
        return {"ok": True, "choices": choices, **board(store, settings["study"], settings, bool(roi))}

    @router.post("/{study}")
    def make(study: str, body: bodies.Report):
        """Queue what is missing; the files are written when all of it is there."""
        store = ctx.store()
        device = store.setting("device", "auto")
        settings = asked.settings(store, study, **body.model_dump(), device=device)
        return {"ok": True, "job": asked.submit(store, settings)}

    @router.get("/{study}/file.{kind}")
    def file(study: str, kind: str):
        """The last report: html opens in the browser, csv, tex and json are downloads."""
        store = ctx.store()
        path = asked.folder(store, show_study(store, study)["id"]) / asked.FILES.get(kind, "")
        if not path.is_file():
            raise NotFound("this report has not been written yet")
        place = "inline" if kind == "html" else "attachment"
        return FileResponse(path, filename=f"{study}-{path.name}", content_disposition_type=place)

    return router
