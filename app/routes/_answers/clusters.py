"""The Clusters tab: encoders, maps, views."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired

from app.routes._answers.shared import Answer, Done, JobAsked, JobStatus, StatusOfJob, Values


class EncoderRun(Answer):
    """k: of MedMix's classes A_0 .. A_k; centred: class centres were saved, from which features can be measured."""

    id: str
    name: str
    method: str
    status: str
    epochs: list[int]
    k: int
    centred: bool


class EncoderRuns(Answer):
    runs: list[EncoderRun]


class MapPoints(Answer):
    train: int
    holdout: int
    mixed: int
    mix_of: str
    test_normal: int
    abnormal: int
    seed: int


class MapConfig(Answer):
    method: Literal["tsne", "umap", "pca"]
    feature: Literal["centred", "projected", "backbone", "patch"]
    epochs: list[int]
    seed: int
    perplexity: float
    iterations: int
    neighbours: int
    min_dist: float
    align: bool
    grid: int
    patches: int
    points: MapPoints


class MapRow(Answer):
    key: str
    study: str
    run: str
    config: MapConfig
    created: str
    job: int | None
    points: int | None
    epochs: list[int]
    seconds: float | None
    run_name: str
    job_status: JobStatus | None
    progress: float | None
    message: str | None
    ready: bool


class SavedView(Answer):
    id: int
    study: str
    name: str
    reader: str
    created: str
    state: Values


class Maps(Answer):
    maps: list[MapRow]
    views: list[SavedView]


class ViewNumber(Answer):
    id: int


class MapEpoch(Answer):
    """numbers: metrics by the labels that they compare: classes, lesions or patches. radii: by group."""

    epoch: int
    snapshot: str
    features_key: str
    numbers: dict[str, Values]
    trustworthiness: float | None
    radii: list[float | None]
    centres: list[tuple[float, float]] | None


class PointIdentities(Answer):
    """place: of a map of patches."""

    case_id: list[int]
    lesions: list[int]
    place: NotRequired[list[int]]


class FitOfMap(Answer):
    id: str
    name: str
    method: str
    parent: str | None


class MapAbout(Answer):
    key: str
    config: MapConfig
    run: str
    run_name: str
    study: str
    points_key: str
    groups: list[str]
    size: int
    epochs: list[MapEpoch]
    seconds: float
    points: PointIdentities
    fits: list[FitOfMap]


ANSWERS: dict[str, Any] = {
    "GET /api/clusters/runs": EncoderRuns,
    "GET /api/clusters/maps": Maps,
    "POST /api/clusters/maps": JobAsked,
    "GET /api/clusters/maps/{key}": MapAbout,
    "DELETE /api/clusters/maps/{key}": Done,
    "POST /api/clusters/maps/{key}/stop": StatusOfJob,
    "POST /api/clusters/views": ViewNumber,
    "DELETE /api/clusters/views/{view}": Done,
}
_FIGURES = ("image/svg+xml", "application/pdf", "image/png")
BINARY: dict[str, tuple[str, ...]] = {
    "GET /api/clusters/maps/{key}/coords": ("application/octet-stream",),
    "GET /api/clusters/maps/{key}/file.{format}": (*_FIGURES, "text/csv", "application/vnd.apache.parquet"),
}
