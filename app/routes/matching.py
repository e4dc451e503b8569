"""Routes of "Match lesions" on the MedMix tab: lesions to match, outlines, searches, and lesions that a run misses."""

from __future__ import annotations

from typing import Annotated, Literal

import cv2
import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import NotRequired

from app.access.permissions import Sighted, Studio
from app.access.turns import heavy
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


class OfDrop(Body):
    """An image dropped on the page. drop: the token of the upload; file: its name in the upload."""

    drop: Name
    file: Line


class BoxOfDrop(OfDrop):
    """A box round a lesion: x0, y0, x1, y1 as fractions of the image's width and height."""

    box: tuple[Finite, Finite, Finite, Finite]


class OutlinedLesion(OfDrop):
    """A lesion outlined on a dropped image. outline: (x, y) as fractions of the image's width and height."""

    outline: Polygon


class NewSearch(Body):
    """A search for settings. cases, outlined: the lesions to match, in cases of the study and on dropped images."""

    study: Name
    cases: Annotated[list[Id], Field(max_length=match.MOST)] = []
    outlined: Annotated[list[OutlinedLesion], Field(max_length=match.MOST)] = []
    seconds: Finite = match.SECONDS


class MatchFile(Body):
    """A search result to export as a preset. config: the settings on screen, if some were changed after the search."""

    name: Name
    config: Settings | None = None


class Planting(Body):
    study: Name
    config: Settings


class OfferedLesion(Part):
    """A lesion that can be matched. kind: whether its mask is a reference mask or an accepted mask of a reader."""

    case: int
    name: str
    kind: Literal["reference", "readers"]


class OfferedLesions(Answer):
    """Lesions that can be matched. most: maximum of one search. latest: id of the study's newest search, or null."""

    lesions: list[OfferedLesion]
    most: int
    latest: str | None


class LesionOutline(Answer):
    outline: list[tuple[float, float]]


class SearchAsked(Answer):
    match: str
    job: int


class MatchedSetting(Part):
    """A setting that the search changed. without: the distance to the lesions if only this setting is reset."""

    name: str
    before: str | float | list[float]
    after: str | float | list[float]
    without: float


class MatchState(Part):
    """What a search has found so far. history: seconds and distance of each improvement.

    before, after: distance of pasted lesions to real ones, with the best preset (`preset`) and with `config`.
    left_out_before, left_out: the same for lesions held out in turn; null if they are too few.
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
    """A search. count: number of lesions. limit: seconds. state: null before the first try. job: null if not listed."""

    id: str
    cases: list[int]
    count: int
    limit: float
    state: MatchState | None
    job: SearchJob | None


class MatchedPreset(Answer):
    preset: Values


class Missed(Answer):
    """How many planted lesions a run flags, by size and opacity."""

    run: str
    name: str
    threshold: float
    planted: list[PlantedLesions]


@router.get("/lesions", response_model=OfferedLesions)
def lesions(ctx: Studio, who: Sighted, study: Name):
    """List the lesions of a study that can be matched."""
    store = ctx.store()
    offered = [{key: row[key] for key in ("case", "name", "kind")} for row in match.offered(store, study)]
    return {"ok": True, "lesions": offered, "most": match.MOST, "latest": match.latest(store, study)}


@router.get("/lesions/{case}/patch.png", **binary("image/png"))
def patch(ctx: Studio, who: Sighted, case: Id, study: Name):
    """Return the patch around a lesion that the matching search uses."""
    return pixels.picture(match.patch(ctx.store(), study, case))


def _source(ctx: Studio, drop: str, file: str) -> Source:
    path = match.dropped_file(ctx.home, drop, file)
    return Source(str(path), 0, file_sha256(path), None)


@router.get("/dropped/{drop}/image.png", **binary("image/png"))
def dropped(ctx: Studio, who: Sighted, drop: Name, file: Line):
    """Return a dropped image, to outline a lesion on it."""
    data = pixels.readable(lambda: pixels.png(_source(ctx, drop, file), SHOWN_SIDE))
    return Response(data, media_type="image/png", headers={"Cache-Control": "no-store"})


@router.post("/outline", response_model=LesionOutline, dependencies=[heavy(GRID)])
def outline(ctx: Studio, who: Sighted, body: BoxOfDrop):
    """Return the outline of the lesion in a box on a dropped image."""
    source = _source(ctx, body.drop, body.file)
    height, width = pixels.readable(source.image).shape[:2]
    x0, y0, x1, y1 = (v * side for v, side in zip(body.box, (width, height, width, height), strict=True))
    case = {**source._asdict(), "width": width, "height": height}
    lines = overview.polygons(boxes.in_box(case, (x0, y0, x1, y1)))
    if not lines:
        raise ValueError("nothing was found in the box: draw the outline by hand")
    return {"ok": True, "outline": max(lines, key=lambda line: cv2.contourArea(np.array(line, np.float32)))}


@router.post("/match", response_model=SearchAsked)
def begin(ctx: Studio, who: Sighted, body: NewSearch):
    """Queue a search for settings whose lesions look like the chosen ones."""
    outlined = tuple(match.outlined(ctx.home, o.drop, o.file, tuple(o.outline)) for o in body.outlined)
    request = match.Asked(body.study, tuple(body.cases), body.seconds, drawn=outlined)
    return {"ok": True, **match.begin(ctx.store(), request)}


@router.get("/match/{match_id}", response_model=Search)
def found(ctx: Studio, who: Sighted, match_id: Name):
    """Return what a search has found so far."""
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
    """Stop a search; the best settings found so far are kept."""
    job = match.get(ctx.store(), match_id)["job"]
    if job and job["status"] in jobs.NOT_ENDED:
        jobs.cancel(ctx.store(), job["id"])
    return found(ctx, who, match_id)


@router.post("/match/{match_id}/export", response_model=MatchedPreset)
def export(ctx: Studio, who: Sighted, match_id: Name, body: MatchFile):
    """Return the result of a search as a preset with its origin, to save as a file."""
    return {"ok": True, "preset": match.as_json(ctx.store(), match_id, body.name, body.config)}


@router.post("/missed", response_model=Missed, dependencies=[heavy(GRID)])
async def missed(ctx: Studio, who: Sighted, request: Request, body: Planting):
    """Plant lesions with these settings into held-out normals, and count how many the study's default run flags."""
    config = MedMixConfig.from_dict(body.config)

    def planted(should_stop: Stop) -> dict:
        return believe.missed(ctx.store(), body.study, config, should_stop=should_stop)

    return {"ok": True, **await while_asked(request, planted)}
