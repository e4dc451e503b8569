"""Routes of "Match lesions" on the MedMix tab: lesions to match, searches for MedMix settings, and missed lesions."""

from __future__ import annotations

from typing import Annotated, Literal

import cv2
import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import NotRequired

from app.access.permissions import Sighted, Studio
from app.access.turns import waits_for_memory
from app.routes import _pixels as pixels
from app.routes._shared import Values
from app.routes._types import Answer, Body, Finite, Id, Line, Name, Part, Settings, binary
from app.routes.medmix import GRID, while_asked
from app.routes.results import PlantedLesions
from core.engine.augment.config import MedMixConfig
from core.engine.files import file_sha256
from core.engine.progress import Stop
from core.studio.ingest import overview
from core.studio.ingest.originals import Source
from core.studio.jobs import queue as jobs
from core.studio.medmix import match
from core.studio.review import believe, boxes

router = APIRouter(prefix="/api/medmix", tags=["medmix"])
SHOWN_SIDE = 1024  # pixels of a dropped image on which a lesion is outlined
Polygon = Annotated[list[tuple[Finite, Finite]], Field(max_length=5000)]


class DroppedFile(Body):
    """Uploaded image. `drop` is the token of the upload, `file` the name of the image in it."""

    drop: Name
    file: Line


class BoxOfDrop(DroppedFile):
    """Box around a lesion on an uploaded image: x0, y0, x1, y1 as fractions of the image's width and height."""

    box: tuple[Finite, Finite, Finite, Finite]


class OutlinedLesion(DroppedFile):
    """Lesion outlined on an uploaded image by points (x, y), given as fractions of the image's width and height."""

    outline: Polygon


class NewSearch(Body):
    """Request to search for MedMix settings whose synthetic lesions look like given lesions.

    cases: Ids of cases of the study, whose annotated lesions are matched.
    outlined: Lesions outlined on uploaded images, which are matched too.
    """

    study: Name
    cases: Annotated[list[Id], Field(max_length=match.MOST)] = []
    outlined: Annotated[list[OutlinedLesion], Field(max_length=match.MOST)] = []
    seconds: Finite = match.SECONDS


class MatchFile(Body):
    """Request to export a search result as a preset. If the user changed settings, `config` replaces those found."""

    name: Name
    config: Settings | None = None


class Planting(Body):
    study: Name
    config: Settings


class OfferedLesion(Part):
    """Lesion that can be matched. `kind` tells whether its mask is a reference mask or a reader's accepted mask."""

    case: int
    name: str
    kind: Literal["reference", "readers"]


class OfferedLesions(Answer):
    """Lesions that can be matched, at most `most` per search. `latest` is the id of the newest search, or null."""

    lesions: list[OfferedLesion]
    most: int
    latest: str | None


class LesionOutline(Answer):
    outline: list[tuple[float, float]]


class SearchAsked(Answer):
    match: str
    job: int


class MatchedSetting(Part):
    """Setting that a search changed. `without` is the distance to the lesions when only this setting is reset."""

    name: str
    before: str | float | list[float]
    after: str | float | list[float]
    without: float


class MatchState(Part):
    """Result of a search so far. Distances are between synthetic and real lesions, in an encoder's features.

    config, preset: Best settings found so far, and name of the best built-in preset.
    before, after: Distance with `preset`, and distance with `config`.
    left_out_before, left_out: These two distances for held-out lesions, or null if there are too few lesions.
    history: Time in seconds and new distance of each improvement.
    """

    config: Values
    preset: str
    before: float
    after: float
    left_out: float | None
    tries: int
    seconds: float
    done: bool
    history: list[tuple[float, float]]
    left_out_before: NotRequired[float | None]
    settings: NotRequired[list[MatchedSetting]]
    words: NotRequired[str]
    note: NotRequired[str]


class SearchJob(Part):
    id: int
    status: str
    error: str | None


class Search(Answer):
    """Search for settings that match `count` lesions, for up to `limit` seconds. `state` is null at first."""

    id: str
    cases: list[int]
    count: int
    limit: float
    state: MatchState | None
    job: SearchJob | None


class MatchedPreset(Answer):
    preset: Values


class Missed(Answer):
    """Sensitivity of a run to synthetic lesions, by size and opacity of the lesions (`planted`)."""

    run: str
    name: str
    threshold: float
    planted: list[PlantedLesions]


@router.get("/lesions", response_model=OfferedLesions)
def lesions(ctx: Studio, who: Sighted, study: Name):
    """Lists the lesions of a study that can be matched."""
    store = ctx.store()
    offered = [{key: row[key] for key in ("case", "name", "kind")} for row in match.offered(store, study)]
    return {"ok": True, "lesions": offered, "most": match.MOST, "latest": match.latest(store, study)}


@router.get("/lesions/{case}/patch.png", **binary("image/png"))
def patch(ctx: Studio, who: Sighted, case: Id, study: Name):
    """Returns the image patch around a lesion, as the search uses it."""
    return pixels.picture(match.patch(ctx.store(), study, case))


def _source(ctx: Studio, drop: str, file: str) -> Source:
    path = match.dropped_file(ctx.home, drop, file)
    return Source(str(path), 0, file_sha256(path), None)


@router.get("/dropped/{drop}/image.png", **binary("image/png"))
def dropped(ctx: Studio, who: Sighted, drop: Name, file: Line):
    """Returns an uploaded image, on which the user can outline a lesion."""
    data = pixels.readable(lambda: pixels.png(_source(ctx, drop, file), SHOWN_SIDE))
    return Response(data, media_type="image/png", headers={"Cache-Control": "no-store"})


@router.post("/outline", response_model=LesionOutline, dependencies=[waits_for_memory(GRID)])
def outline(ctx: Studio, who: Sighted, body: BoxOfDrop):
    """Returns the outline of the lesion inside a box on an uploaded image."""
    source = _source(ctx, body.drop, body.file)
    height, width = pixels.readable(source.image).shape[:2]
    x0, y0, x1, y1 = (v * side for v, side in zip(body.box, (width, height, width, height), strict=True))
    case = {**source._asdict(), "width": width, "height": height}
    lines = overview.polygons(boxes.in_box(case, (x0, y0, x1, y1)))
    if not lines:
        raise ValueError("No lesion was found in the box. Draw its outline by hand.")
    return {"ok": True, "outline": max(lines, key=lambda line: cv2.contourArea(np.array(line, np.float32)))}


@router.post("/match", response_model=SearchAsked)
def begin(ctx: Studio, who: Sighted, body: NewSearch):
    """Queues a search for MedMix settings whose synthetic lesions look like the chosen lesions."""
    outlined = tuple(match.outlined(ctx.home, o.drop, o.file, tuple(o.outline)) for o in body.outlined)
    request = match.MatchRequest(body.study, tuple(body.cases), body.seconds, drawn=outlined)
    return {"ok": True, **match.begin(ctx.store(), request)}


@router.get("/match/{match_id}", response_model=Search)
def found(ctx: Studio, who: Sighted, match_id: Name):
    """Returns the result of a search so far."""
    row = match.get(ctx.store(), match_id)
    request = row["asked"]
    return {
        "ok": True,
        "id": row["id"],
        "cases": request.cases,
        "count": request.count,
        "limit": request.seconds,
        "state": row["state"] or None,
        "job": row["job"],
    }


@router.post("/match/{match_id}/stop", response_model=Search)
def stop(ctx: Studio, who: Sighted, match_id: Name):
    """Stops a search and keeps the best settings found."""
    job = match.get(ctx.store(), match_id)["job"]
    if job and job["status"] in jobs.NOT_ENDED:
        jobs.cancel(ctx.store(), job["id"])
    return found(ctx, who, match_id)


@router.post("/match/{match_id}/export", response_model=MatchedPreset)
def export(ctx: Studio, who: Sighted, match_id: Name, body: MatchFile):
    """Returns the result of a search as the contents of a preset file, which states its origin."""
    return {"ok": True, "preset": match.as_json(ctx.store(), match_id, body.name, body.config)}


@router.post("/missed", response_model=Missed, dependencies=[waits_for_memory(GRID)])
async def missed(ctx: Studio, who: Sighted, request: Request, body: Planting):
    """Pastes synthetic lesions with the given settings into held-out normals; counts those the default run flags."""
    config = MedMixConfig.from_dict(body.config)

    def planted(should_stop: Stop) -> dict:
        return believe.planted_sensitivity(ctx.store(), body.study, config, should_stop=should_stop)

    return {"ok": True, **await while_asked(request, planted)}
