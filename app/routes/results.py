"""The results page's JSON: operating points, agreement, changed minds, Dice by size, the prediction panel."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.routes._types import Int, Name
from core.studio.db.store import NotFound
from core.studio.review import agreement, blind, cases, compared, results, verdicts
from core.studio.review.scored import scored


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/results", include_in_schema=False)

    @router.get("/{study}")
    def everything(request: Request, study: str, run: Name = "", roi: Int = 1):
        """All figures of one run; run '': the default one. A blind reader is refused (app/access/permissions.py)."""
        store = ctx.store()
        runs = cases.scored_runs(store, study)
        out = {"ok": True, "runs": runs, "run": None, "agreement": agreement.agreement(store, study)}
        out["minds"] = results.changed_minds(store, study)
        out["blind"] = blind.is_blind(store, study)
        if runs:
            chosen = run if any(r["id"] == run for r in runs) else runs[0]["id"]
            shown = {r["id"] for r in runs if r["first"]} | {chosen}
            read = {one: scored(store, study, one, bool(roi)) for one in shown}
            points = {
                one: results.operating_point(store, study, one, "labels", bool(roi), kept) for one, kept in read.items()
            }
            out |= {
                "run": chosen,
                "verdicts": [verdicts.verdict(r, points[r["id"]]) for r in runs if r["first"]],
                "labels": points[chosen],
                "readers": results.operating_point(store, study, chosen, "readers", bool(roi), read[chosen]),
                "promise": results.promise(store, study, read[chosen]),
                "compared": compared.compared(store, study, runs, bool(roi)),
                "panel": results.prediction_panel(store, chosen, read[chosen], 14, bool(roi)),
            }
        return out

    @router.get("/{study}/sizes")
    def sizes(study: str, run: Name):
        """Dice by lesion size: a question of its own, since of many cases some hundred masks and maps are read."""
        store = ctx.store()
        if all(r["id"] != run for r in cases.scored_runs(store, study)):
            raise NotFound(f"no run {run!r} has scored {study}")
        return {"ok": True} | results.dice_by_size(store, study, run)

    return router
