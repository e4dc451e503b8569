"""Routes of the Training tab. They read and write the store; the work itself is done by worker processes."""

from __future__ import annotations

import cv2
from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.access import permissions
from app.routes import _bodies as bodies
from app.routes._types import Id, Int, Line, Name
from core.studio.db import owners
from core.studio.medmix.batch_strip import BatchStrip
from core.studio.runs import records as runs
from core.studio.training import dryrun, live
from core.studio.training import requests as training
from core.studio.training.series import series

COMPARED = 6


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/training")
    alarms = live.Alarms(ctx.store())
    strips = BatchStrip(ctx.store())

    def mine(request: Request, made: dict) -> dict:
        """`made`, once its runs are recorded as made by whoever asks."""
        ids = [*([made["run"]] if "run" in made else []), *made.get("fits", [])]
        owners.set_owner(ctx.store(), "run", ids, ctx.user_of(request))
        return made

    @router.get("/forms")
    def forms():
        return {"ok": True, **training.training_forms(ctx.store())}

    @router.post("/check")
    def check(body: bodies.TrainingConfig):
        training.checked(body.config, ctx.store())
        return {"ok": True}

    @router.post("/dry")
    def dry(body: bodies.DryRun):
        store = ctx.store()
        ready = training.checked(body.config, store).to_dict()
        return {"ok": True, **dryrun.dry_run(store.home.path, body.study, ready, store.setting("device", "auto"))}

    @router.post("/start")
    def start(request: Request, body: bodies.Training):
        ctx.demand_quota(request, "run", 1 + len(body.detectors))
        made = training.start(ctx.store(), body.study, body.config, body.name, body.detectors)
        return {"ok": True, **mine(request, made)}

    @router.get("/runs")
    def list_runs(study: Name, archived: bool = False):
        return {"ok": True, "runs": live.overview(ctx.store(), study, archived)}

    @router.get("/run/{run_id}")
    def show(run_id: str, after: Int = -1, stride: Id = 0):
        return {"ok": True, **live.detail(ctx.store(), alarms, run_id, after, stride)}

    @router.get("/run/{run_id}/batch.png")
    def batch(run_id: str, step: Id = 0):
        mosaic = strips.strip(run_id, step)
        png = cv2.imencode(".png", mosaic[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
        return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})

    @router.post("/run/{run_id}/fit")
    def fit(request: Request, run_id: str, body: bodies.Fit):
        ctx.demand_quota(request, "run", len(body.detectors))
        return {"ok": True, **mine(request, training.fit(ctx.store(), run_id, body.detectors))}

    @router.post("/run/{run_id}/frees")
    def frees(run_id: str):
        """Bytes that deleting the run and the fits on it would free."""
        return {"ok": True, **training.act(ctx.store(), run_id, "frees")}

    @router.post("/run/{run_id}/repeat")
    def repeat(request: Request, run_id: str):
        ctx.demand_quota(request, "run")
        return {"ok": True, **mine(request, training.act(ctx.store(), run_id, "repeat"))}

    @router.post("/run/{run_id}/{action}")
    def act(request: Request, run_id: str, action: str, body: bodies.Action):
        if action == "delete":  # goes with the fits on it, which may be another reader's
            for fit in runs.list_runs(ctx.store(), runs.get_run(ctx.store(), run_id)["study"], kind="fit"):
                if fit["parent"] == run_id:
                    permissions.demand_owner(ctx, request, "run", fit["id"])
        return {"ok": True, **training.act(ctx.store(), run_id, action, body.value, by=ctx.user_of(request))}

    @router.get("/compare")
    def compare(run: Line):
        chosen = list(dict.fromkeys(run.split(",")))[:COMPARED]
        rows = [runs.get_run(ctx.store(), one) for one in chosen]
        return {
            "ok": True,
            "runs": [{k: r[k] for k in ("id", "name", "method", "status")} for r in rows],
            "series": [series(ctx.store(), one)["series"] for one in chosen],
            "differences": live.differences([r["config"] for r in rows]),
        }

    return router
