"""Routes of the Clusters tab: ask for maps, read them, the pictures behind their points, neighbours, what leaves it."""

from __future__ import annotations

from typing import Annotated

import cv2
import numpy as np
from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from core.studio.clusters import actions, columns, explore, library, pictures, projected
from core.studio.clusters.config import MapConfig
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

    def opened(request: Request, key: str):
        m = library.open_map(ctx.store(), key)
        return sighted(ctx, request, m.about["study"]), m

    @router.get("/runs")
    def encoder_runs(request: Request, study: str):
        """Encoders that a map can be drawn of, trained ones first, newest first, with the epochs that were saved."""
        store = sighted(ctx, request, study)
        found = []
        newest = reversed(list_runs(store, study, "pretrain"))
        for run in sorted(newest, key=lambda run: run["method"] == UNTRAINED):
            epochs = [s.epoch for s in snapshots(store, run)]
            if epochs:
                keep = ("id", "name", "method", "status")
                found.append({**{k: run[k] for k in keep}, "epochs": epochs, "k": run["config"].get("k", 3)})
        return {"ok": True, "runs": found}

    @router.get("/maps")
    def maps(request: Request, study: str):
        store = sighted(ctx, request, study)
        return {"ok": True, "maps": library.list_maps(store, study), "views": actions.list_views(store, study)}

    @router.post("/maps")
    def ask(request: Request, run: Annotated[str, Body()], config: Annotated[dict, Body()]):
        store = sighted(ctx, request, get_run(ctx.store(), run)["study"])
        return {"ok": True, **library.request(store, run, MapConfig.from_dict(config))}

    @router.delete("/maps/{key}")
    def forget(request: Request, key: str):
        library.forget(ctx.store(), key)
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
    def point(request: Request, key: str, point: int, fit: str | None = None):
        return {"ok": True, **explore.describe(*opened(request, key), point, fit)}

    @router.get("/maps/{key}/points/{point}/thumb.png")
    def thumb(request: Request, key: str, point: int, side: int = 96):
        return png(pictures.thumbnail(*opened(request, key), point, min(max(side, 16), 256)))

    @router.get("/maps/{key}/points/{point}/image.png")
    def image(request: Request, key: str, point: int, side: int = 512):
        return png(pictures.picture(*opened(request, key), point, min(max(side, 32), 2048)))

    @router.get("/maps/{key}/points/{point}/heat.png")
    def heat(request: Request, key: str, point: int, fit: str):
        return png(pictures.heat(*opened(request, key), point, fit))

    @router.get("/maps/{key}/points/{point}/neighbours")
    def neighbours(request: Request, key: str, point: int, epoch: int = -1, k: int = 10):
        """Nearest in feature space, not on the map. `epoch` is an index into the map's epochs."""
        found = explore.neighbours(*opened(request, key), point, epoch, min(max(k, 1), 50))
        return {"ok": True, "neighbours": found}

    @router.post("/maps/{key}/tag")
    def tag(
        request: Request,
        key: str,
        points: Annotated[list[int], Body()],
        tag: Annotated[str, Body()],
        remove: Annotated[bool, Body()] = False,
    ):
        return {"ok": True, **actions.tag(*opened(request, key), points, tag, remove)}

    @router.post("/maps/{key}/worklist")
    def worklist(request: Request, key: str, points: Annotated[list[int], Body(embed=True)]):
        return {"ok": True, **actions.to_worklist(*opened(request, key), points, ctx.user_of(request))}

    @router.get("/maps/{key}/file.{format}")
    def file(
        request: Request,
        key: str,
        format: str,
        fit: str | None = None,
        colour: str = "class",
        epoch: int | None = None,
        hide: str = "",
    ):
        """The map as a figure (svg, pdf, png; one epoch or all) or as a table (csv, parquet).

        Names are remapped for all but administrators."""
        from core.studio.clusters import figure, table

        store, m = opened(request, key)
        names = names_for(store, m.about["study"], ctx.user_of(request), ctx.single_user)
        ready = [row["key"] for row in projected.list_projected(store, key) if row["ready"]]
        new = [projected.open_projected(store, key, k) for k in ready]
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
    def save_view(
        request: Request, study: Annotated[str, Body()], name: Annotated[str, Body()], state: Annotated[dict, Body()]
    ):
        store = sighted(ctx, request, study)
        return {"ok": True, "id": actions.save_view(store, study, name, ctx.user_of(request), state)}

    @router.delete("/views/{view}")
    def delete_view(view: int):
        actions.delete_view(ctx.store(), view)
        return {"ok": True}

    return router
