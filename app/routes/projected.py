"""Routes of the Clusters tab that project new images onto a finished map, and return the projections."""

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
    """Request to project images onto a map: images in a folder (administrators only), or new cases of a study."""

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
    """Projection that is queued or in progress."""

    ready: Literal[False]


class Projection(_Projected):
    """Images that were projected onto a map.

    cases: Id of each image's case, or -1 for a file of a folder.
    left_out: Images that were skipped.
    far: For each epoch of the map, and for each image, whether the image is far from all images of the map.
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
    """Returns projection `new` onto map `key`, given by their ids. Raises Hidden for blinded readers of the study."""
    return projected.open_projected(opened(ctx, who, key)[0], key, new)


@router.get("", response_model=Projections)
def placed_on(ctx: Studio, who: Sighted, key: str):
    """Lists the projections onto a map, both finished ones and those in progress."""
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
    """Requests the projection of a folder's or a study's images onto a map.

    Only administrators may name a folder of this machine. A study is refused to readers who read it blind.
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
    """Removes a projection from a map."""
    projected.forget(opened(ctx, who, key)[0], key, new)
    owners.forget_owner(ctx.store(), "projection", new)
    return {"ok": True}


@router.get("/{new}/coords", **binary("application/octet-stream"))
def coords(ctx: Studio, who: Sighted, key: str, new: str):
    """Returns the coordinates of projected images: little-endian float32 (E, M, 2) for E epochs and M images."""
    projection = projection_of(ctx, who, key, new)
    data = np.ascontiguousarray(projection.coords, "<f4").tobytes()
    return Response(data, media_type="application/octet-stream", headers=KEEP)


@router.get("/{new}/{image}", response_model=ProjectedImage)
def one(ctx: Studio, who: Sighted, key: str, new: str, image: Id, epoch: Int = -1):
    """Returns a projected image's name and its nearest neighbours in feature space at the epoch with index `epoch`."""
    return {"ok": True, **projected.describe(projection_of(ctx, who, key, new), image, epoch)}


@router.get("/{new}/{image}/thumb.png", **binary("image/png"))
def thumb(ctx: Studio, who: Sighted, key: str, new: str, image: Id, side: Side = 96):
    """Returns a projected image as a thumbnail."""
    projection = projection_of(ctx, who, key, new)
    projected.describe(projection, image)
    return pixels.picture(projected.thumbnail(projection, image, min(max(side, 16), 256)), KEEP)


@router.get("/{new}/{image}/image.png", **binary("image/png"))
def picture(ctx: Studio, who: Sighted, key: str, new: str, image: Id, side: Side = 512):
    """Returns a projected image."""
    projection = projection_of(ctx, who, key, new)
    projected.describe(projection, image)
    return pixels.picture(projected.picture(projection, image, min(max(side, 32), 2048)), KEEP)
