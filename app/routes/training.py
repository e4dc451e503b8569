"""Routes of the Training tab. They read and write the store; the work itself is done by worker processes."""

from __future__ import annotations

from typing import Annotated

import cv2
from fastapi import APIRouter, Body
from fastapi.responses import Response

from core.studio.medmix.batch_strip import BatchStrip
from core.studio.runs import records as runs
from core.studio.training import dryrun, live
from core.studio.training import requests as training
from core.studio.training.series import series

Values = Annotated[dict, Body()]
Whole = Annotated[dict, Body(embed=True)]
COMPARED = 6


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/training")
    alarms = live.Alarms(ctx.store())
    strips = BatchStrip(ctx.store())

    @router.get("/forms")
    def forms():
        return {"ok": True, **training.training_forms(ctx.store())}

    @router.post("/check")
    def check(config: Whole):
        training.checked(config, ctx.store())
        return {"ok": True}

    @router.post("/dry")
    def dry(config: Values, study: str = Body()):
        store = ctx.store()
        ready = training.checked(config, store).to_dict()
        return {"ok": True, **dryrun.dry_run(store.home.path, study, ready, store.setting("device", "auto"))}

    @router.post("/start")
    def start(config: Values, detectors: Values, study: str = Body(), name: str = Body("")):
        return {"ok": True, **training.start(ctx.store(), study, config, name, detectors)}

    @router.get("/runs")
    def list_runs(study: str, archived: bool = False):
        return {"ok": True, "runs": live.overview(ctx.store(), study, archived)}

    @router.get("/run/{run_id}")
    def show(run_id: str, after: int = -1, stride: int = 0):
        return {"ok": True, **live.detail(ctx.store(), alarms, run_id, after, stride)}

    @router.get("/run/{run_id}/batch.png")
    def batch(run_id: str, step: int = 0):
        mosaic = strips.strip(run_id, step)
        png = cv2.imencode(".png", mosaic[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})

    @router.post("/run/{run_id}/fit")
    def fit(run_id: str, detectors: Whole):
        return {"ok": True, **training.fit(ctx.store(), run_id, detectors)}

    @router.post("/run/{run_id}/{action}")
    def act(run_id: str, action: str, value: str = Body("", embed=True)):
        return {"ok": True, **training.act(ctx.store(), run_id, action, value)}

    @router.get("/compare")
    def compare(run: str):
        chosen = list(dict.fromkeys(run.split(",")))[:COMPARED]
        rows = [runs.get_run(ctx.store(), one) for one in chosen]
        return {
            "ok": True,
            "runs": [{k: r[k] for k in ("id", "name", "method", "status")} for r in rows],
            "series": [series(ctx.store(), one)["series"] for one in chosen],
            "differences": live.differences([r["config"] for r in rows]),
        }

    return router
