"""The points of a map: what colours them, what is said of one, images projected onto the map."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired

from app.routes._answers.shared import (
    Answer,
    Decision,
    Done,
    JobAsked,
    JobStatus,
    Polygons,
    Rectangle,
    SampleCase,
)


class Column(Answer):
    """Categories: a code per point and their names. Numbers: values, one per point, null where unknown."""

    name: str
    title: str
    names: NotRequired[list[str]]
    codes: NotRequired[list[int]]
    values: NotRequired[list[float | None]]


class Columns(Answer):
    columns: list[Column]


class Neighbour(Answer):
    point: int
    distance: float


class Neighbours(Answer):
    neighbours: list[Neighbour]


class CaseOfPoint(SampleCase):
    tags: list[str]


class ReadingOfPoint(Answer):
    """flagged, flagged_roi, has_map: 0 or 1."""

    run: str
    score: float | None
    score_roi: float | None
    percentile: float | None
    percentile_roi: float | None
    flagged: int | None
    flagged_roi: int | None
    has_map: int


class ReviewOfPoint(Answer):
    reader: str
    decision: Decision
    comment: str
    created: str


class PointDetail(Answer):
    """case: null once it was removed. box: of the patch, in parts of the image."""

    point: int
    case_id: int
    lesions: int
    group: str
    case: CaseOfPoint | None
    box: Rectangle | None
    outline: Polygons
    reading: ReadingOfPoint | None
    reviews: list[ReviewOfPoint]


class Tagged(Answer):
    """left_out: MedMix versions among the points."""

    tag: str
    cases: int
    left_out: int


class OnWorklist(Answer):
    cases: int
    left_out: int


class _Projected(Answer):
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
    """Images that were projected onto a map. cases: -1 for a file of a folder. far: by epoch and image, whether it lies
    out of the map's support."""

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


ANSWERS: dict[str, Any] = {
    "GET /api/clusters/maps/{key}/columns": Columns,
    "GET /api/clusters/maps/{key}/points/{point}": PointDetail,
    "GET /api/clusters/maps/{key}/points/{point}/neighbours": Neighbours,
    "POST /api/clusters/maps/{key}/tag": Tagged,
    "POST /api/clusters/maps/{key}/worklist": OnWorklist,
    "GET /api/clusters/maps/{key}/placed": Projections,
    "POST /api/clusters/maps/{key}/placed": JobAsked,
    "DELETE /api/clusters/maps/{key}/placed/{new}": Done,
    "GET /api/clusters/maps/{key}/placed/{new}/{image}": ProjectedImage,
}
BINARY = {
    "GET /api/clusters/maps/{key}/points/{point}/thumb.png": ("image/png",),
    "GET /api/clusters/maps/{key}/points/{point}/image.png": ("image/png",),
    "GET /api/clusters/maps/{key}/points/{point}/heat.png": ("image/png",),
    "GET /api/clusters/maps/{key}/placed/{new}/coords": ("application/octet-stream",),
    "GET /api/clusters/maps/{key}/placed/{new}/{image}/thumb.png": ("image/png",),
    "GET /api/clusters/maps/{key}/placed/{new}/{image}/image.png": ("image/png",),
}
