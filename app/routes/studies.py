"""Routes of the Study tab: import by path or by dropping, adding cases, the overview, the sample's pictures.

What brings images in or takes a study away is for administrators: a path names any file of this machine.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import cv2
from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from app.access import limits
from app.routes import _bodies as bodies
from app.routes._types import Id, Int, Line, Side
from core.studio.db import owners
from core.studio.demo import study as demo
from core.studio.ingest import kind, overview, records, studies
from core.studio.ingest import uploads as dropped
from core.studio.ingest.background import Imports
from core.studio.ingest.video import Sampling
from core.studio.jobs import queue as jobs
from core.studio.review import findings, readers
from core.studio.review.cases import scored_runs
from core.studio.runs import bin, look
from core.studio.runs import records as runs
from core.studio.training import estimate

KEEP = {"Cache-Control": "private, max-age=3600"}
TILE_SIDES = (16, 1024)
READERS_DROP, DROPS = 512 * limits.MB, 3  # of one upload by a reader who does not administer, and how many are kept


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/study")
    imports = Imports(ctx.store())

    def administers(request: Request) -> bool:
        return readers.rights(ctx.store(), ctx.user_of(request), ctx.single_user)["administer"]

    @router.post("/import")
    def start(body: bodies.Import):
        store, home = ctx.store(), ctx.home
        name, folder, drop = body.name, body.folder.strip(), body.drop
        how: dict[str, Any] = {"sampling": Sampling(per_second=body.per_second)}
        how["patients"] = f"^.{{{body.patient_letters}}}" if body.patient_letters else None
        study = studies.slug(name)
        studies.demand_free_name(store, study)
        if drop is None and not folder:
            raise ValueError("give the path of a folder, or drop files on the page")
        if drop is None:
            ctx.demand_root(folder)

        def from_path(progress):
            report = studies.import_study(store, name, folder, copy=body.keep, on_progress=progress, **how)
            return report.to_dict()

        def from_drop(progress, drop: str):
            try:
                dropped.unpack(home, drop)
                root = dropped.root_of(home, drop)
                report = studies.import_study(store, name, root, copy=True, on_progress=progress, **how)
                return report.to_dict()
            finally:
                dropped.discard(home, drop)
                owners.forget_owner(store, "drop", drop)

        return {"ok": True, "task": imports.start(from_path if drop is None else partial(from_drop, drop=drop))}

    @router.post("/{study}/add")
    def add(study: str, body: bodies.Add):
        """One file, all below a folder, or what was dropped, as test cases without a label; scored by the run that
        Review opens with. The report's `first` is the first new case."""
        store, drop = ctx.store(), body.drop
        if not drop:
            ctx.demand_root(body.path)
        given = [] if drop else studies.files_at(body.path)
        sampling = None if body.per_second is None else Sampling(per_second=body.per_second)

        def from_drop(progress, drop: str):
            try:
                dropped.unpack(ctx.home, drop)
                return work(progress, studies.files_at(dropped.drop_folder(ctx.home, drop)))
            finally:
                dropped.discard(ctx.home, drop)
                owners.forget_owner(store, "drop", drop)

        def work(progress, files=given):
            last = records.newest_case(store)
            copy = body.keep or bool(drop)
            report = studies.add_cases(store, study, files, on_progress=progress, sampling=sampling, copy=copy)
            if report.accepted and scored_runs(store, study):
                jobs.submit(
                    store, [{"step": "import", "args": {"study": study, "device": store.setting("device", "auto")}}]
                )
            return {**report.to_dict(), "first": records.first_after(store, study, last)}

        studies.study_row(store, study)
        return {"ok": True, "task": imports.start(partial(from_drop, drop=drop) if drop else work)}

    @router.post("/{study}/look")
    def first_look(study: str):
        """Queue quick detectors on pretrained features; {"job", "encoder", "fit"}."""
        studies.study_row(ctx.store(), study)
        return {"ok": True, **look.look(ctx.store(), study, ctx.store().setting("device", "auto"))}

    @router.post("/import/{task}/stop")
    def stop(task: str):
        imports.stop(task)
        return {"ok": True}

    @router.get("/import/{task}")
    def progress(task: str):
        return {"ok": True, **imports.state(task)}

    @router.post("/drop")
    def new_drop(request: Request):
        """A reader's oldest uploads make room for the newest, so that nobody fills the disk."""
        store, who = ctx.store(), ctx.user_of(request)
        if not administers(request):
            for old in owners.owned(store, "drop", who)[: 1 - DROPS]:
                dropped.discard(ctx.home, old)
                owners.forget_owner(store, "drop", old)
        drop = dropped.new_drop(ctx.home)
        owners.set_owner(store, "drop", [drop], who)
        return {"ok": True, "drop": drop}

    @router.put("/drop/{token}")
    async def receive(token: str, path: Line, request: Request):
        target = dropped.place(ctx.home, token, path)
        left = None if administers(request) else READERS_DROP - dropped.size(ctx.home, token)
        try:
            with target.open("wb") as out:
                async for chunk in request.stream():
                    left = None if left is None else left - len(chunk)
                    if left is not None and left < 0:
                        raise limits.TooLarge
                    await run_in_threadpool(out.write, chunk)
        except limits.TooLarge:
            target.unlink(missing_ok=True)
            return limits.too_large(READERS_DROP)
        except BaseException:
            target.unlink(missing_ok=True)  # half a file is none
            raise
        return {"ok": True}

    @router.post("/demo")
    def draw_demo():
        def draw(progress):
            study = demo.make_demo(ctx.store(), on_progress=progress)
            cases = studies.show_study(ctx.store(), study)["cases"]
            return {"study": study, "accepted": cases, "rejected": [], "duplicates": []}

        return {"ok": True, "task": imports.start(draw)}

    @router.get("/{study}/overview")
    def show(study: str):
        return {"ok": True, **overview.overview(ctx.store(), study)}

    @router.get("/{study}/next")
    def what_next(study: str):
        """What can be done with a study that has just come in, and the kind of image that it seems to hold."""
        store = ctx.store()
        studies.study_row(store, study)
        return {
            "ok": True,
            "kinds": kind.KINDS,
            "guess": kind.guess(store, study),
            "kept": kind.kept(store, study),
            "scored": bool(scored_runs(store, study)),
            "trained": bool(runs.list_runs(store, study, "pretrain")),
            "look": estimate.first_look(store, study),
        }

    @router.post("/{study}/kind")
    def keep_kind(request: Request, study: str, body: bodies.Kind):
        """Confirm the kind of image; the labels of findings then fit it, unless the study has its own."""
        store = ctx.store()
        studies.study_row(store, study)
        kind.keep(store, study, body.kind)
        return {"ok": True, "labels": findings.fit_labels(store, study, body.kind, ctx.user_of(request))}

    @router.get("/{study}/sample")
    def draw(study: str, count: Int = 24, seed: Id = 0, part: str = "all"):
        return {"ok": True, "cases": overview.sample(ctx.store(), study, max(1, min(count, 100)), seed, part)}

    @router.delete("/{study}")
    def remove(request: Request, study: str):
        bin.put_study(ctx.store(), study, ctx.user_of(request))
        return {"ok": True}

    @router.get("/case/{case_id}/tile.png")
    def tile(case_id: Id, side: Side = 320):
        image = overview.tile(ctx.store(), case_id, max(TILE_SIDES[0], min(side, TILE_SIDES[1])))
        png = cv2.imencode(".png", image[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return Response(png, media_type="image/png", headers=KEEP)

    @router.get("/case/{case_id}/outlines")
    def outlines(case_id: Id):
        return {"ok": True, **overview.outlines(ctx.store(), case_id)}

    return router
