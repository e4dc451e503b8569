"""Routes of the Study tab: import by path or by dropping, adding cases, the overview, the sample's pictures.

What brings images in or takes a study away is for administrators: a path names any file of this machine.
"""

from __future__ import annotations

import cv2
from fastapi import APIRouter, Body, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from core.studio.demo import study as demo
from core.studio.ingest import overview, studies
from core.studio.ingest import uploads as dropped
from core.studio.ingest.background import Imports
from core.studio.ingest.video import Sampling
from core.studio.jobs import queue as jobs
from core.studio.review import readers
from core.studio.review.cases import scored_runs

KEEP = {"Cache-Control": "private, max-age=3600"}
TILE_SIDES = (16, 1024)


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/study")
    imports = Imports(ctx.store())

    def administrator(request: Request) -> None:
        readers.demand(ctx.store(), ctx.user_of(request), ctx.single_user, "administer")

    @router.post("/import")
    def start(
        request: Request,
        folder: str = Body(""),
        name: str = Body(""),
        keep: bool = Body(False),
        drop: str | None = Body(None),
        per_second: float = Body(1.0),
    ):
        administrator(request)
        store, home = ctx.store(), ctx.home
        sampling = Sampling(per_second=per_second)
        study = studies.slug(name)
        if any(row["id"] == study for row in studies.list_studies(store)):
            raise ValueError(f"there is already a study {study!r}; choose another name")
        if drop is None and not folder.strip():
            raise ValueError("give the path of a folder, or drop files on the page")

        def from_path(progress):
            report = studies.import_study(
                store, name, folder.strip(), copy=keep, on_progress=progress, sampling=sampling
            )
            return report.to_dict()

        def from_drop(progress):
            try:
                dropped.unpack(home, drop)
                root = dropped.root_of(home, drop)
                report = studies.import_study(store, name, root, copy=True, on_progress=progress, sampling=sampling)
                return report.to_dict()
            finally:
                dropped.discard(home, drop)

        return {"ok": True, "task": imports.start(from_path if drop is None else from_drop)}

    @router.post("/{study}/add")
    def add(
        request: Request,
        study: str,
        path: str = Body(""),
        keep: bool = Body(False),
        per_second: float | None = Body(None),
    ):
        """One file, or all below a folder, as test cases without a label; scored by the run that Review opens with."""
        administrator(request)
        store = ctx.store()
        files = studies.files_at(path)
        sampling = None if per_second is None else Sampling(per_second=per_second)

        def work(progress):
            report = studies.add_cases(store, study, files, on_progress=progress, sampling=sampling, copy=keep)
            if report.accepted and scored_runs(store, study):
                jobs.submit(
                    store, [{"step": "import", "args": {"study": study, "device": store.setting("device", "auto")}}]
                )
            return report.to_dict()

        studies.study_row(store, study)
        return {"ok": True, "task": imports.start(work)}

    @router.get("/import/{task}")
    def progress(task: str):
        return {"ok": True, **imports.state(task)}

    @router.post("/drop")
    def new_drop():
        return {"ok": True, "drop": dropped.new_drop(ctx.home)}

    @router.put("/drop/{token}")
    async def receive(token: str, path: str, request: Request):
        target = dropped.place(ctx.home, token, path)
        with target.open("wb") as out:
            async for chunk in request.stream():
                await run_in_threadpool(out.write, chunk)
        return {"ok": True}

    @router.post("/demo")
    def draw_demo(request: Request):
        administrator(request)

        def draw(progress):
            study = demo.make_demo(ctx.store(), on_progress=progress)
            cases = studies.show_study(ctx.store(), study)["cases"]
            return {"study": study, "accepted": cases, "rejected": [], "duplicates": []}

        return {"ok": True, "task": imports.start(draw)}

    @router.get("/{study}/overview")
    def show(study: str):
        return {"ok": True, **overview.overview(ctx.store(), study)}

    @router.get("/{study}/sample")
    def draw(study: str, count: int = 24, seed: int = 0, part: str = "all"):
        return {"ok": True, "cases": overview.sample(ctx.store(), study, max(1, min(count, 100)), seed, part)}

    @router.delete("/{study}")
    def remove(request: Request, study: str):
        administrator(request)
        studies.delete_study(ctx.store(), study)
        return {"ok": True}

    @router.get("/case/{case_id}/tile.png")
    def tile(case_id: int, side: int = 320):
        image = overview.tile(ctx.store(), case_id, max(TILE_SIDES[0], min(side, TILE_SIDES[1])))
        png = cv2.imencode(".png", image[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return Response(png, media_type="image/png", headers=KEEP)

    @router.get("/case/{case_id}/outlines")
    def outlines(case_id: int):
        return {"ok": True, **overview.outlines(ctx.store(), case_id)}

    return router
