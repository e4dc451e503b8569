"""Routes of the Clusters tab: maps, which are 2-D projections of encoder features, with their points and exports."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import NotRequired

from app.access import permissions
from app.access.permissions import Sighted, Studio, owner_of
from app.context import Context
from app.routes import _pixels as pixels
from app.routes._shared import Decision, JobAsked, JobStatus, NamedRun, Polygons, SampleCase, StatusOfJob, Values
from app.routes._types import Answer, Body, Done, Id, Int, Name, Part, Settings, Side, binary
from core.studio.clusters import config, explore, library, projected
from core.studio.clusters.points import has_centres
from core.studio.db import owners
from core.studio.db.store import Store
from core.studio.ingest.studies import study_row
from core.studio.review import context, sessions
from core.studio.review.exports.tables import names_for
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.records import get_run, list_runs
from core.studio.runs.weights import snapshots

router = APIRouter(prefix="/api/clusters", tags=["clusters"])
KEEP = {"Cache-Control": "private, max-age=86400, immutable"}  # the address contains the map's content key
MEDIA = {
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "png": "image/png",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def sighted(ctx: Context, who: str, study: str) -> Store:
    """Returns the store. Raises Hidden if the reader reads the study blind, because maps show labels and scores."""
    with context.reading(ctx.store(), who, single_user=ctx.single_user, study=study) as request_context:
        if request_context.blinded:
            raise sessions.Hidden(
                "You read this study blind, and its maps show labels: they open when your blind reading has ended."
            )
    return ctx.store()


class ClusterMap(Body):
    run: Name
    config: Settings


class Points(Body):
    points: Annotated[list[Id], Field(max_length=200_000)]


class Tag(Points):
    tag: Name
    remove: bool = False


class View(Body):
    study: Name
    name: Name
    state: Settings


class EncoderRun(NamedRun):
    """Encoder whose features can be shown on a map.

    epochs: Epochs with a saved checkpoint.
    k: Largest number of lesions that MedMix pastes into an image; its class A_n has n lesions.
    centred: Whether the class centres of every epoch were saved, which a map of centred features needs.
    """

    status: str
    epochs: list[int]
    k: int
    centred: bool


class EncoderRuns(Answer):
    runs: list[EncoderRun]


class MapPoints(Part):
    train: int
    holdout: int
    mixed: int
    mix_of: str
    test_normal: int
    abnormal: int
    seed: int


class MapConfig(Part):
    method: Literal["tsne", "umap", "pca"]
    feature: Literal["centred", "projected", "backbone"]
    epochs: list[int]
    seed: int
    perplexity: float
    iterations: int
    neighbours: int
    min_dist: float
    align: bool
    points: MapPoints


class MapRow(Part):
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


class SavedView(Part):
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


class MapEpoch(Part):
    """State of a map at one epoch.

    numbers: Cluster metrics, "classes" for MedMix's classes and "lesions" for normal and abnormal images.
    radii: Radius of each group of points in feature space.
    centres: Positions of the class centres on the map.
    """

    epoch: int
    snapshot: str
    features_key: str
    numbers: dict[str, Values]
    trustworthiness: float | None
    radii: list[float | None]
    centres: list[tuple[float, float]] | None


class PointIdentities(Part):
    """Case id of each point on a map, and the number of synthetic lesions pasted into the point's image."""

    case_id: list[int]
    lesions: list[int]


class FitOfMap(NamedRun):
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


class Column(Part):
    """Data that can colour points: categories (`codes` index `names`) or numbers (`values`, null if unknown)."""

    name: str
    title: str
    names: NotRequired[list[str]]
    codes: NotRequired[list[int]]
    values: NotRequired[list[float | None]]


class Columns(Answer):
    columns: list[Column]


class Neighbour(Part):
    point: int
    distance: float


class Neighbours(Answer):
    neighbours: list[Neighbour]


class CaseOfPoint(SampleCase):
    tags: list[str]


class ReadingOfPoint(Part):
    """Result of a run for the case of a point. `flagged`, `flagged_roi` and `has_map` are 1 or 0."""

    run: str
    score: float | None
    score_roi: float | None
    percentile: float | None
    percentile_roi: float | None
    flagged: int | None
    flagged_roi: int | None
    has_map: int


class ReviewOfPoint(Part):
    reader: str
    decision: Decision
    comment: str
    created: str


class PointDetail(Answer):
    """Details of a point on a map. `case` is null if the case has been removed."""

    point: int
    case_id: int
    lesions: int
    group: str
    case: CaseOfPoint | None
    outline: Polygons
    reading: ReadingOfPoint | None
    reviews: list[ReviewOfPoint]


class OnWorklist(Answer):
    """Result of assigning points to a worklist: number of assigned `cases`, and of skipped points (`left_out`)."""

    cases: int
    left_out: int


class Tagged(OnWorklist):
    """Result of adding or removing a tag: number of changed `cases`, and of skipped points (`left_out`)."""

    tag: str


def opened(ctx: Context, who: str, key: str) -> tuple[Store, library.Map]:
    """Returns the store and the map `key`. Raises Hidden if the reader reads the map's study blind."""
    m = library.open_map(ctx.store(), key)
    return sighted(ctx, who, m.about["study"]), m


@router.get("/runs", response_model=EncoderRuns)
def encoder_runs(ctx: Studio, who: Sighted, study: Name):
    """Lists the encoders whose features can be mapped: trained encoders first, in order from newest to oldest."""
    store = sighted(ctx, who, study)
    encoders = []
    newest = reversed(list_runs(store, study, "pretrain"))
    for run in sorted(newest, key=lambda run: run["method"] == UNTRAINED):
        saved = snapshots(store, run)
        if saved:
            entry = {k: run[k] for k in ("id", "name", "method", "status")}
            entry |= {"epochs": [s.epoch for s in saved], "k": run["config"].get("k", 3)}
            encoders.append({**entry, "centred": all(has_centres(s) for s in saved)})
    return {"ok": True, "runs": encoders}


@router.get("/maps", response_model=Maps)
def maps(ctx: Studio, who: Sighted, study: Name):
    """Lists the maps and saved views of a study."""
    store = sighted(ctx, who, study)
    return {"ok": True, "maps": library.list_maps(store, study), "views": library.list_views(store, study)}


@router.post("/maps/{key}/stop", response_model=StatusOfJob)
def stop(ctx: Studio, who: Sighted, key: str):
    """Stops the job that computes a map."""
    return {"ok": True, "status": library.stop(ctx.store(), key)}


@router.post("/maps", response_model=JobAsked)
def ask(ctx: Studio, who: Sighted, body: ClusterMap):
    """Requests a map of an encoder's features; an existing map is not computed again."""
    store = sighted(ctx, who, get_run(ctx.store(), body.run)["study"])
    with ctx.making(who, "map") as record_owner:
        request_made = library.request(store, body.run, config.MapConfig.from_dict(body.config))
        record_owner([request_made["key"]])
    return {"ok": True, **request_made}


@router.delete("/maps/{key}", response_model=Done)
def forget(ctx: Studio, who: Annotated[str, owner_of("map", "key")], key: str):
    """Deletes a map."""
    library.forget(ctx.store(), key)
    owners.forget_owner(ctx.store(), "map", key)
    return {"ok": True}


@router.get("/maps/{key}", response_model=MapAbout)
def about(ctx: Studio, who: Sighted, key: str):
    """Returns the settings and metrics of a map, the cases of its points and the runs whose scores can colour it."""
    store, m = opened(ctx, who, key)
    points = m.points
    identity = {"case_id": points.case_id.tolist(), "lesions": points.lesions.tolist()}
    return {"ok": True, "key": key, **m.about, "points": identity, "fits": explore.fits(store, m)}


@router.get("/maps/{key}/coords", **binary("application/octet-stream"))
def coords(ctx: Studio, who: Sighted, key: str):
    """Returns the coordinates of a map's points: little-endian float32 (E, N, 2) for E epochs and N points."""
    _, m = opened(ctx, who, key)
    data = np.ascontiguousarray(m.coords, "<f4").tobytes()
    return Response(data, media_type="application/octet-stream", headers=KEEP)


@router.get("/maps/{key}/columns", response_model=Columns)
def colours(ctx: Studio, who: Sighted, key: str, fit: str | None = None):
    """Lists the categories and numbers by which a map's points can be coloured, such as the scores of the run `fit`."""
    return {"ok": True, "columns": explore.columns(*opened(ctx, who, key), fit)}


@router.get("/maps/{key}/points/{point}", response_model=PointDetail)
def point(ctx: Studio, who: Sighted, key: str, point: Id, fit: str | None = None):
    """Returns the details of one point: its case, the result of the run `fit`, and the readers' decisions."""
    return {"ok": True, **explore.describe(*opened(ctx, who, key), point, fit)}


@router.get("/maps/{key}/points/{point}/thumb.png", **binary("image/png"))
def thumb(ctx: Studio, who: Sighted, key: str, point: Id, side: Side = 96):
    """Returns the image of a point as a thumbnail."""
    return pixels.picture(explore.thumbnail(*opened(ctx, who, key), point, min(max(side, 16), 256)), KEEP)


@router.get("/maps/{key}/points/{point}/image.png", **binary("image/png"))
def image(ctx: Studio, who: Sighted, key: str, point: Id, side: Side = 512):
    """Returns the image of a point."""
    return pixels.picture(explore.picture(*opened(ctx, who, key), point, min(max(side, 32), 2048)), KEEP)


@router.get("/maps/{key}/points/{point}/heat.png", **binary("image/png"))
def heat(ctx: Studio, who: Sighted, key: str, point: Id, fit: str):
    """Returns the heat map that the run `fit` computed for a point's case, to overlay on the image."""
    return pixels.picture(explore.heat(*opened(ctx, who, key), point, fit), KEEP)


@router.get("/maps/{key}/points/{point}/neighbours", response_model=Neighbours)
def neighbours(ctx: Studio, who: Sighted, key: str, point: Id, epoch: Int = -1, k: Int = 10):
    """Lists the k nearest neighbours of a point in feature space. `epoch` is an index into the map's epochs."""
    points = explore.neighbours(*opened(ctx, who, key), point, epoch, min(max(k, 1), 50))
    return {"ok": True, "neighbours": points}


@router.post("/maps/{key}/tag", response_model=Tagged)
def tag(ctx: Studio, who: Sighted, key: str, body: Tag):
    """Adds a tag to the cases of the given points, or removes it from them."""
    return {"ok": True, **library.tag(*opened(ctx, who, key), body.points, body.tag, who, body.remove)}


@router.post("/maps/{key}/worklist", response_model=OnWorklist)
def worklist(ctx: Studio, who: Sighted, key: str, body: Points):
    """Assigns the cases of the given points to the reader. Points without a test case are skipped."""
    return {"ok": True, **library.to_worklist(*opened(ctx, who, key), body.points, who)}


@router.get(
    "/maps/{key}/file.{format}",
    **binary("image/svg+xml", "application/pdf", "image/png", "text/csv", "application/vnd.apache.parquet"),
)
def file(
    ctx: Studio,
    who: Sighted,
    key: str,
    format: str,
    fit: str | None = None,
    colour: str = "class",
    epoch: Int | None = None,
    hide: str = "",
):
    """Returns a map as a figure (svg, pdf, png) of one epoch or all epochs, or as a table (csv, parquet).

    Only administrators get the original names of cases.
    """
    from core.studio.clusters import figure

    store, m = opened(ctx, who, key)
    names = names_for(store, m.about["study"], who, ctx.single_user)
    ready = [row["key"] for row in projected.list_projected(store, key) if row["ready"]]
    new = [projected.open_projected(store, key, k) for k in ready]
    if format not in MEDIA:
        raise ValueError(f"Unknown map format {format!r}; choose from: {', '.join(MEDIA)}.")
    if format in explore.TABLE_FORMATS:
        data = explore.write(store, m, format, names, fit, [projected.with_names(p, names) for p in new])
    else:
        columns = {c["name"]: c for c in explore.with_names(explore.columns(store, m, fit), names)}
        column = columns.get(colour) if colour != "class" and "codes" in columns.get(colour, {}) else None
        hidden = set(filter(None, hide.split("|"))) if column is None else set()
        groups = [g for g in m.about["groups"] if g not in hidden]
        epochs = None if epoch is None else [epoch]
        new = [p for p in new if f"Placed: {p.about['title']}" not in hide.split("|")]
        named = [projected.with_names(p, names) for p in new]
        data = figure.draw(m, format, epochs, column, groups, objective=figure.objective(store, m), projected=named)
    name = f"{m.about['study']}-{m.config.method}-{m.config.feature}.{format}"
    return Response(data, media_type=MEDIA[format], headers={"Content-Disposition": f'attachment; filename="{name}"'})


@router.post("/views", response_model=ViewNumber)
def save_view(ctx: Studio, who: Sighted, body: View):
    """Saves a view under a name. A view with the same name is replaced if the reader may change it."""
    store = sighted(ctx, who, body.study)
    study_row(store, body.study)
    with store.write():
        for old in library.list_views(store, body.study):
            if old["name"] == " ".join(body.name.split()):
                permissions.demand_owner(ctx, who, "view", old["id"])
                owners.forget_owner(store, "view", old["id"])
        with ctx.making(who, "view") as record_owner:
            view = library.save_view(store, body.study, body.name, who, body.state)
            record_owner([view])
    return {"ok": True, "id": view}


@router.delete("/views/{view}", response_model=Done)
def delete_view(ctx: Studio, who: Annotated[str, owner_of("view", "view")], view: Id):
    """Deletes a saved view."""
    library.delete_view(ctx.store(), view)
    owners.forget_owner(ctx.store(), "view", view)
    return {"ok": True}
