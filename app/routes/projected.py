"""Routes of the Clusters tab for new images on a finished map: request their projection, read it, get pictures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response

from app.access.permissions import Sighted, Studio, owner_of
from app.context import Context
from app.routes import _pixels as pixels
from app.routes._shared import JobAsked, JobStatus
from app.routes._types import Answer, Body, Done, Id, Int, Line, Name, Part, Side, binary
from app.routes.clusters import KEEP, Neighbour, opened, sighted
from core.studio.clusters import projected
from core.studio.clusters.points import Projected
from core.studio.db import owners
from core.studio.review import people

router = APIRouter(prefix="/api/clusters/maps/{key}/placed", tags=["clusters"])


class NewProjection(Body):
    """Images to project onto a map, from a folder (administrators only) or a study's cases that are not on it."""

    folder: Line = ""
    study: Name = ""


class _Projected(Part):
    key: str
    title: str
    images: int | None
    job: int | None
    job_status: JobStatus | None
    progress: float | None
    message: str | None


class WaitingProjection(_Projected):
    """Images that are being projected onto a map."""

    ready: Literal[False]


class Projection(_Projected):
    """Images that were projected onto a map.

    cases: case ids, -1 for files of a folder. far: by epoch and image, whether it is far from every image of the map.
    """

    ready: Literal[True]
    names: list[str]
    cases: list[int]
    left_out: list[Any]
    far: list[list[bool]]


class Projections(Answer):
    sets: list[Projection | WaitingProjection]


class ProjectedImage(Answer):
    name: str
    title: str
    case_id: int
    far: bool
    neighbours: list[Neighbour]


def projection_of(ctx: Context, who: str, key: str, new: str) -> Projected:
    """Returns projected images. Raises Hidden if the reader reads the map's study blind."""
    return projected.open_projected(opened(ctx, who, key)[0], key, new)


@router.get("", response_model=Projections)
def placed_on(ctx: Studio, who: Sighted, key: str):
    """List the images projected onto the map, and the projections in progress."""
    store, _ = opened(ctx, who, key)
    sets = []
    for row in projected.list_projected(store, key):
        if row["ready"]:
            new = projected.open_projected(store, key, row["key"])
            row |= {k: new.about[k] for k in ("names", "cases", "left_out")} | {"far": new.out_of_support.tolist()}
        sets.append(row)
    return {"ok": True, "sets": sets}


@router.post("", response_model=JobAsked)
def ask(ctx: Studio, who: Sighted, key: str, body: NewProjection):
    """Request the projection of a folder's or a study's images onto a map.

    Only administrators may name a folder, which is on this machine. A study is refused to readers who read it blind.
    """
    store, folder = opened(ctx, who, key)[0], body.folder.strip()
    if folder:
        people.demand(store, who, ctx.single_user, "administer")
        ctx.demand_root(folder)
    if body.study:
        sighted(ctx, who, body.study)
    with ctx.making(who, "projection") as record_owner:
        request_made = projected.request(store, key, projected.ProjectionConfig(folder=folder, study=body.study))
        record_owner([request_made["key"]])
    return {"ok": True, **request_made}


@router.delete("/{new}", response_model=Done)
def forget(ctx: Studio, who: Annotated[str, owner_of("projection", "new")], key: str, new: str):
    """Remove projected images from the map."""
    projected.forget(opened(ctx, who, key)[0], key, new)
    owners.forget_owner(ctx.store(), "projection", new)
    return {"ok": True}


@router.get("/{new}/coords", **binary("application/octet-stream"))
def coords(ctx: Studio, who: Sighted, key: str, new: str):
    """Return the coordinates of projected images by epoch: little-endian float32 (E, M, 2)."""
    projection = projection_of(ctx, who, key, new)
    data = np.ascontiguousarray(projection.coords, "<f4").tobytes()
    return Response(data, media_type="application/octet-stream", headers=KEEP)


@router.get("/{new}/{image}", response_model=ProjectedImage)
def one(ctx: Studio, who: Sighted, key: str, new: str, image: Id, epoch: Int = -1):
    """Describe a projected image: its name, and its nearest neighbours at epoch index `epoch`.

    Distances are in feature space.
    """
    return {"ok": True, **projected.describe(projection_of(ctx, who, key, new), image, epoch)}


@router.get("/{new}/{image}/thumb.png", **binary("image/png"))
def thumb(ctx: Studio, who: Sighted, key: str, new: str, image: Id, side: Side = 96):
    """Return a projected image as a thumbnail."""
    projection = projection_of(ctx, who, key, new)
    projected.describe(projection, image)
    return pixels.picture(projected.thumbnail(projection, image, min(max(side, 16), 256)), KEEP)


@router.get("/{new}/{image}/image.png", **binary("image/png"))
def picture(ctx: Studio, who: Sighted, key: str, new: str, image: Id, side: Side = 512):
    """Return a projected image."""
    projection = projection_of(ctx, who, key, new)
    projected.describe(projection, image)
    return pixels.picture(projected.picture(projection, image, min(max(side, 32), 2048)), KEEP)
