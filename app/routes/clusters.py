"""Routes of the Clusters tab: ask for maps, read them, the pictures behind their points, neighbours, what leaves it."""

from __future__ import annotations

import cv2
import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.access import permissions
from app.routes import _bodies as bodies
from app.routes._types import Id, Int, Name, Side
from core.studio.clusters import actions, columns, explore, library, pictures, projected
from core.studio.clusters.config import MapConfig
from core.studio.clusters.features import has_centres
from core.studio.db import owners
from core.studio.db.store import Store
from core.studio.ingest.studies import study_row
from core.studio.review import blind
from core.studio.review.exports.names import names_for
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.records import get_run, list_runs
from core.studio.runs.snapshots import snapshots

KEEP = {"Cache-Control": "private, max-age=86400, immutable"}  # an address holds the map's content key
MEDIA = {
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "png": "image/png",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def png(image: np.ndarray) -> Response:
    """RGB or RGBA, lossless."""
    order = cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR
    data = cv2.imencode(".png", cv2.cvtColor(image, order), [cv2.IMWRITE_PNG_COMPRESSION, 3])[1]
    return Response(data.tobytes(), media_type="image/png", headers=KEEP)


def sighted(ctx, request: Request, study: str):
    """The store, if the reader may see labels and scores of the study: a map shows them all at once."""
    store = ctx.store()
    if blind.applies(store, study, ctx.user_of(request)):
        raise blind.Hidden("This study is read blind; its maps show labels and open when you no longer read it so.")
    return store


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/clusters")

    def opened(request: Request, key: str) -> tuple[Store, library.Map]:
        m = library.open_map(ctx.store(), key)
        return sighted(ctx, request, m.about["study"]), m

    @router.get("/runs")
    def encoder_runs(request: Request, study: Name):
        """Encoders that a map can be drawn of, trained ones first, newest first, with the epochs that were saved."""
        store = sighted(ctx, request, study)
        found = []
        newest = reversed(list_runs(store, study, "pretrain"))
        for run in sorted(newest, key=lambda run: run["method"] == UNTRAINED):
            saved = snapshots(store, run)
            if saved:
                known = {k: run[k] for k in ("id", "name", "method", "status")}
                known |= {"epochs": [s.epoch for s in saved], "k": run["config"].get("k", 3)}
                found.append({**known, "centred": all(has_centres(s) for s in saved)})
        return {"ok": True, "runs": found}

    @router.get("/maps")
    def maps(request: Request, study: Name):
        store = sighted(ctx, request, study)
        return {"ok": True, "maps": library.list_maps(store, study), "views": actions.list_views(store, study)}

    @router.post("/maps/{key}/stop")
    def stop(request: Request, key: str):
        return {"ok": True, "status": library.stop(ctx.store(), key)}

    @router.post("/maps")
    def ask(request: Request, body: bodies.ClusterMap):
        store = sighted(ctx, request, get_run(ctx.store(), body.run)["study"])
        ctx.demand_quota(request, "map")
        made = library.request(store, body.run, MapConfig.from_dict(body.config))
        owners.set_owner(store, "map", [made["key"]], ctx.user_of(request))
        return {"ok": True, **made}

    @router.delete("/maps/{key}")
    def forget(key: str):
        library.forget(ctx.store(), key)
        owners.forget_owner(ctx.store(), "map", key)
        return {"ok": True}

    @router.get("/maps/{key}")
    def about(request: Request, key: str):
        """What is known of a map, its points' identities and the runs whose readings can colour it."""
        store, m = opened(request, key)
        points = m.points
        identity = {"case_id": points.case_id.tolist(), "lesions": points.lesions.tolist()}
        if points.place is not None:
            identity["place"] = points.place.tolist()
        return {"ok": True, "key": key, **m.about, "points": identity, "fits": columns.fits(store, m)}

    @router.get("/maps/{key}/coords")
    def coords(request: Request, key: str):
        """Little-endian float32 (E, N, 2)."""
        _, m = opened(request, key)
        data = np.ascontiguousarray(m.coords, "<f4").tobytes()
        return Response(data, media_type="application/octet-stream", headers=KEEP)

    @router.get("/maps/{key}/columns")
    def colours(request: Request, key: str, fit: str | None = None):
        return {"ok": True, "columns": columns.columns(*opened(request, key), fit)}

    @router.get("/maps/{key}/points/{point}")
    def point(request: Request, key: str, point: Id, fit: str | None = None):
        return {"ok": True, **explore.describe(*opened(request, key), point, fit)}

    @router.get("/maps/{key}/points/{point}/thumb.png")
    def thumb(request: Request, key: str, point: Id, side: Side = 96):
        return png(pictures.thumbnail(*opened(request, key), point, min(max(side, 16), 256)))

    @router.get("/maps/{key}/points/{point}/image.png")
    def image(request: Request, key: str, point: Id, side: Side = 512):
        return png(pictures.picture(*opened(request, key), point, min(max(side, 32), 2048)))

    @router.get("/maps/{key}/points/{point}/heat.png")
    def heat(request: Request, key: str, point: Id, fit: str):
        return png(pictures.heat(*opened(request, key), point, fit))

    @router.get("/maps/{key}/points/{point}/neighbours")
    def neighbours(request: Request, key: str, point: Id, epoch: Int = -1, k: Int = 10):
        """Nearest in feature space, not on the map. `epoch` is an index into the map's epochs."""
        found = explore.neighbours(*opened(request, key), point, epoch, min(max(k, 1), 50))
        return {"ok": True, "neighbours": found}

    @router.post("/maps/{key}/tag")
    def tag(request: Request, key: str, body: bodies.Tag):
        by = ctx.user_of(request)
        return {"ok": True, **actions.tag(*opened(request, key), body.points, body.tag, by, body.remove)}

    @router.post("/maps/{key}/worklist")
    def worklist(request: Request, key: str, body: bodies.Points):
        return {"ok": True, **actions.to_worklist(*opened(request, key), body.points, ctx.user_of(request))}

    @router.get("/maps/{key}/file.{format}")
    def file(
        request: Request,
        key: str,
        format: str,
        fit: str | None = None,
        colour: str = "class",
        epoch: Int | None = None,
        hide: str = "",
    ):
        """The map as a figure (svg, pdf, png; one epoch or all) or as a table (csv, parquet).

        Names are remapped for all but administrators."""
        from core.studio.clusters import figure, table

        store, m = opened(request, key)
        names = names_for(store, m.about["study"], ctx.user_of(request), ctx.single_user)
        ready = [row["key"] for row in projected.list_projected(store, key) if row["ready"]]
        new = [projected.open_projected(store, key, k) for k in ready]
        if format not in MEDIA:
            raise ValueError(f"a map goes out as one of {', '.join(MEDIA)}, not {format!r}")
        if format in table.FORMATS:
            data = table.write(store, m, format, names, fit, [projected.with_names(p, names) for p in new])
        else:
            found = {c["name"]: c for c in columns.with_names(columns.columns(store, m, fit), names)}
            column = found.get(colour) if colour != "class" and "codes" in found.get(colour, {}) else None
            hidden = set(filter(None, hide.split("|"))) if column is None else set()
            groups = [g for g in m.about["groups"] if g not in hidden]
            shown = None if epoch is None else [epoch]
            new = [p for p in new if f"Placed: {p.about['title']}" not in hide.split("|")]
            seen = [projected.with_names(p, names) for p in new]
            data = figure.draw(m, format, shown, column, groups, objective=figure.objective(store, m), projected=seen)
        name = f"{m.about['study']}-{m.config.method}-{m.config.feature}.{format}"
        return Response(
            data, media_type=MEDIA[format], headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )

    @router.post("/views")
    def save_view(request: Request, body: bodies.View):
        """The same name replaces the view, if it is the reader's own."""
        store, who = sighted(ctx, request, body.study), ctx.user_of(request)
        study_row(store, body.study)
        for old in actions.list_views(store, body.study):
            if old["name"] == " ".join(body.name.split()):
                permissions.demand_owner(ctx, request, "view", old["id"])
                owners.forget_owner(store, "view", old["id"])
        ctx.demand_quota(request, "view")
        view = actions.save_view(store, body.study, body.name, who, body.state)
        owners.set_owner(store, "view", [view], who)
        return {"ok": True, "id": view}

    @router.delete("/views/{view}")
    def delete_view(view: Id):
        actions.delete_view(ctx.store(), view)
        owners.forget_owner(ctx.store(), "view", view)
        return {"ok": True}

    return router
