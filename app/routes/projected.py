"""Routes of the Clusters tab for new images on a finished map: ask for them, read them, the pictures behind them."""

from __future__ import annotations

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.routes import _bodies as bodies
from app.routes._types import Id, Int, Side
from app.routes.clusters import KEEP, png, sighted
from core.studio.clusters import library, projected
from core.studio.db import owners


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/clusters/maps/{key}/placed")

    def opened(request: Request, key: str):
        m = library.open_map(ctx.store(), key)
        return sighted(ctx, request, m.about["study"])

    @router.get("")
    def placed_on(request: Request, key: str):
        """What lies on the map besides its own points, and what is on its way there."""
        store = opened(request, key)
        sets = []
        for row in projected.list_projected(store, key):
            if row["ready"]:
                new = projected.open_projected(store, key, row["key"])
                row |= {k: new.about[k] for k in ("names", "cases", "left_out")} | {"far": new.out_of_support.tolist()}
            sets.append(row)
        return {"ok": True, "sets": sets}

    @router.post("")
    def ask(request: Request, key: str, body: bodies.Projection):
        """A folder names files of this machine, hence is for administrators; a study is for its readers."""
        store, folder = opened(request, key), body.folder.strip()
        if folder:
            ctx.demand(request, "administer")
            ctx.demand_root(folder)
        if body.study:
            sighted(ctx, request, body.study)
        ctx.demand_quota(request, "projection")
        made = projected.request(store, key, projected.ProjectionConfig(folder=folder, study=body.study))
        owners.set_owner(store, "projection", [made["key"]], ctx.user_of(request))
        return {"ok": True, **made}

    @router.delete("/{new}")
    def forget(request: Request, key: str, new: str):
        projected.forget(opened(request, key), key, new)
        owners.forget_owner(ctx.store(), "projection", new)
        return {"ok": True}

    @router.get("/{new}/coords")
    def coords(request: Request, key: str, new: str):
        """Little-endian float32 (E, M, 2)."""
        found = projected.open_projected(opened(request, key), key, new)
        data = np.ascontiguousarray(found.coords, "<f4").tobytes()
        return Response(data, media_type="application/octet-stream", headers=KEEP)

    @router.get("/{new}/{image}")
    def one(request: Request, key: str, new: str, image: Id, epoch: Int = -1):
        """Its name and nearest at epoch index `epoch`; distances are those in feature space."""
        return {
            "ok": True,
            **projected.describe(projected.open_projected(opened(request, key), key, new), image, epoch),
        }

    @router.get("/{new}/{image}/thumb.png")
    def thumb(request: Request, key: str, new: str, image: Id, side: Side = 96):
        found = projected.open_projected(opened(request, key), key, new)
        projected.describe(found, image)
        return png(projected.thumbnail(found, image, min(max(side, 16), 256)))

    @router.get("/{new}/{image}/image.png")
    def picture(request: Request, key: str, new: str, image: Id, side: Side = 512):
        found = projected.open_projected(opened(request, key), key, new)
        projected.describe(found, image)
        return png(projected.picture(found, image, min(max(side, 32), 2048)))

    return router
