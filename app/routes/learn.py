"""Learning from what readers marked: what there is to learn from, what was learnt, and how it compares."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.routes import _bodies as bodies
from core.studio.db import owners
from core.studio.ingest.studies import study_row
from core.studio.review.cases import scored_runs
from core.studio.runs import learnt
from core.studio.runs import records as runs
from core.studio.runs.preferred import LEARNT
from core.studio.training import live

SHOWN = 5  # of what was learnt, the latest


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/learn", include_in_schema=False)

    @router.get("/{study}")
    def show(study: str):
        store = ctx.store()
        study_row(store, study)
        fits = [r for r in scored_runs(store, study) if r["method"] != LEARNT]
        jobs = live.jobs_of_runs(store)
        made = [r for r in runs.list_runs(store, study, kind="fit") if r["method"] == LEARNT]
        return {
            "ok": True,
            **learnt.offered(store, study),
            "fits": [
                {**{k: r[k] for k in ("id", "name", "title")}, "seconds": learnt.seconds(store, r["id"])} for r in fits
            ],
            "learnt": [_learnt(r, live.brief(jobs.get(r["id"]))) for r in made[: -SHOWN - 1 : -1]],
        }

    @router.post("/{study}")
    def learn(request: Request, study: str, body: bodies.Learn):
        store = ctx.store()
        if runs.get_run(store, body.fit)["study"] != study_row(store, study)["id"]:
            raise ValueError(f"{body.fit} is no fit of this study")
        ctx.demand_quota(request, "run")
        made = learnt.learn(store, body.fit, device=store.setting("device", "auto"))
        owners.set_owner(store, "run", [made["run"]], ctx.user_of(request))
        return {"ok": True, **made}

    return router


def _learnt(run: dict, job: dict | None) -> dict:
    about = {k: run[k] for k in ("id", "name", "created", "status")}
    rule = run["summary"].get("rule")
    return {
        **about,
        "base": run["config"]["base_run"],
        "masks": len(run["config"]["marks"]["masks"]),
        "share": rule["share"] if rule else None,
        "job": job,
        "comparison": run["summary"].get(learnt.KEPT),
    }
