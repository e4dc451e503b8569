"""Routes of the Clusters tab: ask for maps, read them, the pictures behind their points, neighbours."""

from __future__ import annotations

from typing import Annotated

import cv2
import numpy as np
from fastapi import APIRouter, Body
from fastapi.responses import Response

from core.studio.clusters import columns, explore, library, pictures
from core.studio.clusters.config import MapConfig
from core.studio.clusters.features import snapshots
from core.studio.runs import list_runs

KEEP = {"Cache-Control": "private, max-age=86400, immutable"}  # an address holds the map's content key


def png(image: np.ndarray) -> Response:
    """RGB or RGBA, lossless."""
    order = cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR
    data = cv2.imencode(".png", cv2.cvtColor(image, order), [cv2.IMWRITE_PNG_COMPRESSION, 3])[1]
    return Response(data.tobytes(), media_type="image/png", headers=KEEP)


def routes(ctx) -> APIRouter:
    router = APIRouter(prefix="/api/clusters")

    @router.get("/runs")
    def encoder_runs(study: str):
        """Encoders that a map can be drawn of, newest first, with the epochs that were saved."""
        store = ctx.store()
        found = []
        for run in reversed(list_runs(store, study, "pretrain")):
            epochs = [s.epoch for s in snapshots(store, run)]
            if epochs:
                keep = ("id", "name", "method", "status")
                found.append({**{k: run[k] for k in keep}, "epochs": epochs, "k": run["config"].get("k", 3)})
        return {"ok": True, "runs": found}

    @router.get("/maps")
    def maps(study: str):
        return {"ok": True, "maps": library.list_maps(ctx.store(), study)}

    @router.post("/maps")
    def ask(run: Annotated[str, Body()], config: Annotated[dict, Body()]):
        return {"ok": True, **library.request(ctx.store(), run, MapConfig.from_dict(config))}

    @router.delete("/maps/{key}")
    def forget(key: str):
        library.forget(ctx.store(), key)
        return {"ok": True}

    @router.get("/maps/{key}")
    def about(key: str):
        """What is known of a map, its points' identities and the runs whose readings can colour it."""
        store = ctx.store()
        m = library.open_map(store, key)
        identity = {"case_id": m.points.case_id.tolist(), "lesions": m.points.lesions.tolist()}
        fits = columns.fits(store, m)
        return {"ok": True, "key": key, **m.about, "points": identity, "fits": fits}

    @router.get("/maps/{key}/coords")
    def coords(key: str):
        """Little-endian float32 (E, N, 2)."""
        m = library.open_map(ctx.store(), key)
        data = np.ascontiguousarray(m.coords, "<f4").tobytes()
        return Response(data, media_type="application/octet-stream", headers=KEEP)

    @router.get("/maps/{key}/columns")
    def colours(key: str, fit: str | None = None):
        store = ctx.store()
        return {"ok": True, "columns": columns.columns(store, library.open_map(store, key), fit)}

    @router.get("/maps/{key}/points/{point}")
    def point(key: str, point: int, fit: str | None = None):
        store = ctx.store()
        return {"ok": True, **explore.describe(store, library.open_map(store, key), point, fit)}

    @router.get("/maps/{key}/points/{point}/thumb.png")
    def thumb(key: str, point: int, side: int = 96):
        store = ctx.store()
        return png(pictures.thumbnail(store, library.open_map(store, key), point, min(max(side, 16), 256)))

    @router.get("/maps/{key}/points/{point}/image.png")
    def image(key: str, point: int, side: int = 512):
        store = ctx.store()
        return png(pictures.picture(store, library.open_map(store, key), point, min(max(side, 32), 2048)))

    @router.get("/maps/{key}/points/{point}/heat.png")
    def heat(key: str, point: int, fit: str):
        store = ctx.store()
        return png(pictures.heat(store, library.open_map(store, key), point, fit))

    @router.get("/maps/{key}/points/{point}/neighbours")
    def neighbours(key: str, point: int, epoch: int = -1, k: int = 10):
        """Nearest in feature space, not on the map. `epoch` is an index into the map's epochs."""
        store = ctx.store()
        m = library.open_map(store, key)
        return {"ok": True, "neighbours": explore.neighbours(store, m, point, epoch, min(max(k, 1), 50))}

    return router
