"""Routes of the Study tab: imports, uploads, adding cases, the overview of a study, sample images.

Only administrators import images or remove studies, because a path can refer to any file on this machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Discriminator, Field
from starlette.concurrency import run_in_threadpool
from typing_extensions import NotRequired, TypeAliasType

from app.access.guard import too_large
from app.access.permissions import Administrator, Sighted, Studio, owner_of
from app.context import Context
from app.routes import _pixels as pixels
from app.routes._shared import Polygons, SampleCase, Values
from app.routes._types import Answer, Body, Done, Id, Int, Line, Name, Part, Side, binary
from core.studio.db import limits, owners
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.demo import study as demo
from core.studio.ingest import kind, overview, records, roots, studies
from core.studio.ingest import uploads as dropped
from core.studio.ingest.background import Imports, Reply
from core.studio.ingest.layouts import Question, demand_plain
from core.studio.ingest.video import Sampling
from core.studio.jobs import queue as jobs
from core.studio.review import decisions
from core.studio.review.cases import scored_runs
from core.studio.runs import bin, learnt, look, marks
from core.studio.runs import records as runs
from core.studio.training import estimate

router = APIRouter(prefix="/api/study", tags=["studies"])
TILE_SIDES = (16, 1024)
SAMPLE_SIDE = 144


class Import(Body):
    """Request to import images as a new study, from a folder of this machine (`folder`) or from an upload (`drop`).

    drop: Token of the upload.
    keep: Whether to copy the images of a folder into the home.
    per_second: Number of frames per second to take from recordings.
    patient_letters: Number of characters at the start of a file name that identify the patient; 0 for none.
    again: Whether to import images that were erased from this home.
    ask: Whether to ask the user about erased images and an ambiguous layout before storing anything.
    """

    folder: Line = ""
    name: Name = ""
    keep: bool = False
    drop: Name | None = None
    per_second: float = 1.0
    patient_letters: int = Field(default=0, ge=0, le=100)
    again: bool = False
    ask: bool = False


class Add(Body):
    """Request to add images to a study, from a path on this machine (`path`) or from an upload (`drop`).

    drop: Token of the upload.
    again: Whether to add images that were erased from this home.
    ask: Whether to ask the user about erased images before storing anything.
    """

    path: Line = ""
    drop: Name | None = None
    keep: bool = False
    per_second: float | None = None
    again: bool = False
    ask: bool = False


class Answered(Body):
    """Answer to an import's question. `again` tells whether to import images that were erased from this home."""

    answers: dict[Line, Literal["normal", "abnormal", "out"]] = {}
    again: bool | None = None


class Kind(Body):
    kind: Name


class Task(Answer):
    """Result of starting an import. `task` is the token for requesting the import's progress."""

    task: str


class Rejected(Part):
    path: str
    reason: str


class Duplicate(Part):
    kind: str
    train: str
    test: str
    correlation: float


class Straddling(Part):
    """Names of a patient's images in the training and the test split, if the patient has images in both splits."""

    train: list[str]
    test: list[str]


class Report(Part):
    """Report of an import. `first` is the id of the first new case, if cases were added to an existing study."""

    study: str
    accepted: int
    rejected: list[Rejected]
    duplicates: list[Duplicate]
    layout: NotRequired[str]
    masks: NotRequired[int]
    counts: NotRequired[dict[str, int]]
    burned_in: NotRequired[list[str]]
    copies: NotRequired[str]
    patients: NotRequired[int]
    straddling: NotRequired[list[Straddling]]
    odd: NotRequired[list[Rejected]]
    first: NotRequired[int | None]


class _Import(Answer):
    """State of an import. `done` and `total` count images, `started` is in seconds since 1970 (UTC)."""

    done: int
    total: int
    started: float
    stop: NotRequired[bool]


class RunningImport(_Import):
    state: Literal["running"]


class DoneImport(_Import):
    state: Literal["done"]
    report: Report


class FailedImport(_Import):
    state: Literal["failed"]
    error: str


class ImageGroup(Part):
    """Group of images that an import interprets in the same way.

    meaning: Split and label such as "train normal", or "" if the user has to decide.
    samples: Number of sample images that can be shown.
    """

    name: str
    meaning: str
    images: int
    masks: int
    why: str | None
    samples: int


class ImportQuestion(Part):
    """Question that an import asks the user. `erased` is the number of files that were once erased from this home."""

    layout: str
    groups: list[ImageGroup]
    erased: int


class AskedImport(_Import):
    """Import that waits for the user's answer and has stored nothing yet."""

    state: Literal["asked"]
    question: ImportQuestion


_Imports = RunningImport | AskedImport | DoneImport | FailedImport
ImportState = TypeAliasType("ImportState", Annotated[_Imports, Discriminator("state")])


class Look(Answer):
    job: int
    encoder: str
    fit: str


class DemoAsked(Body):
    """Request for the demo study. `train` queues its training on this machine instead of importing its results."""

    train: bool = False


class DemoJob(Answer):
    """Job that computes the demo's weights or trains on it; null if the study existed already."""

    job: int | None


class Drop(Answer):
    drop: str


class Study(Part):
    id: str
    name: str
    created: str
    folder: str | None
    layout: str | None
    config: Values
    fingerprint: str | None
    binned: str | None
    cases: int
    masks: int
    counts: dict[str, int]


class ByLabel(Part):
    normal: int
    abnormal: int
    unknown: int


class Table(Part):
    train: ByLabel
    holdout: ByLabel
    test: ByLabel


class BySplit(Part):
    train: int
    holdout: int
    test: int


class Overview(Answer):
    """Contents of a study.

    table: Number of cases by split and label.
    masks: Number of cases with a reference mask, by split.
    sizes: The four most frequent of the `size_count` image sizes, with the number of images.
    report: Report of the import.
    """

    study: Study
    table: Table
    masks: BySplit
    sizes: list[tuple[str, int]]
    size_count: int
    bits: list[int]
    modalities: list[str]
    report: Report | None


class Next(Answer):
    """Facts for choosing the next step in a study.

    guess, kept: Kind of image as guessed, and as confirmed by an administrator.
    decided: Number of cases with a decision.
    masks: Number of cases with an accepted lesion mask of a reader.
    look: Estimated seconds of a first look (a quick detector on pretrained features).
    """

    kinds: dict[str, str]
    guess: str | None
    kept: str | None
    scored: bool
    trained: bool
    decided: int
    masks: int
    look: float


class Fitting(Answer):
    """Names of the presets of synthetic lesions that suit the kind of image, for MedMix and for the lesion head."""

    medmix: str
    head: str


class Labels(Answer):
    labels: list[str]


class Sample(Answer):
    cases: list[SampleCase]


class Outlines(Answer):
    roi: Polygons
    lesion: Polygons


@contextlib.contextmanager
def _unpacked(store: Store, home: Home, drop: str, reply: Reply) -> Iterator[Path]:
    """Yields the folder of the unpacked upload and deletes it afterwards, unless the import asks a question.

    Errors are re-raised with messages that contain no path.
    """
    with contextlib.ExitStack() as after:
        after.callback(_forget, store, home, drop)
        try:
            if not reply.given:  # a zip within a zip is not unpacked on a second run
                dropped.unpack(home, drop)
            yield dropped.drop_folder(home, drop)
        except Question:
            after.pop_all()
            raise
        except ValueError as error:
            raise ValueError(dropped.shown(home, drop, str(error))) from None


def _forget(store: Store, home: Home, drop: str | None) -> None:
    if drop:
        dropped.discard(home, drop)
        owners.forget_owner(store, "drop", drop)


def _begin(ctx: Context, request: str, drop: str | None, reply: Reply, bring: Callable[..., dict]) -> dict[str, Any]:
    """Starts an import in the background, unless the same import is running, and returns the answer with its token.

    bring: Function that imports, given the progress callback, the upload's folder (or None) and the allowed folders.
    """
    store, home = ctx.store(), ctx.home

    def work(progress) -> dict:
        if drop is None:
            return bring(progress, None, roots.allowed(store, ctx.single_user))
        with _unpacked(store, home, drop, reply) as top:
            return dropped.shown(home, drop, bring(progress, top, roots.Within([top])))

    forget = partial(_forget, store, home, drop)
    return {"ok": True, "task": ctx.held(Imports, store).start(work, request, reply, forget)}


def _erased(body: Import | Add, reply: Reply) -> bool | None:
    """Returns whether erased images are imported again, or None if a person has to be asked."""
    return body.again or (reply.again if body.ask else bool(reply.again))


@router.post("/import", response_model=Task)
def start(ctx: Studio, who: Administrator, body: Import):
    """Imports a folder of this machine or an upload as a new study."""
    store = ctx.store()
    name, folder, drop = body.name, body.folder.strip(), body.drop
    options: dict[str, Any] = {"sampling": Sampling(per_second=body.per_second), "by": who}
    options["patients"] = f"^.{{{body.patient_letters}}}" if body.patient_letters else None
    study = studies.slug(name)
    studies.demand_free_name(store, study)
    if drop is None and not folder:
        raise ValueError("The import has no images. Give the path of a folder, or drop files on the page.")
    if drop is None:
        ctx.demand_root(folder)
    reply = Reply()

    def bring(progress, top: Path | None, within: roots.Within) -> dict:
        plan = demand_plain if body.ask and not reply.given else None
        source: str | Path = folder if drop is None else dropped.root_of(ctx.home, drop)
        return studies.import_study(
            store, name, source, body.keep or drop is not None, on_progress=progress, within=within,
            answers=reply.answers, on_plan=plan, again=_erased(body, reply), **options,
        ).to_dict()  # fmt: skip

    return _begin(ctx, f"{study} {body}", drop, reply, bring)


@router.post("/{study}/add", response_model=Task)
def add(ctx: Studio, who: Administrator, study: str, body: Add):
    """Adds test cases without labels to a study: a file, all files below a folder, or an upload.

    The new cases are then scored by the run with which Review opens.
    """
    store, drop = ctx.store(), body.drop or None
    if drop is None:
        ctx.demand_root(body.path)
    named_files = studies.files_at(body.path) if drop is None else []
    sampling = None if body.per_second is None else Sampling(per_second=body.per_second)

    reply = Reply()

    def bring(progress, top: Path | None, within: roots.Within) -> dict:
        last = records.newest_case(store)
        files = named_files if top is None else studies.files_at(top)
        report = studies.add_cases(
            store, study, files, on_progress=progress, sampling=sampling, copy=body.keep or top is not None,
            within=within, by=who, again=_erased(body, reply),
        )  # fmt: skip
        if report.accepted and scored_runs(store, study):
            device = store.setting("device", "auto")
            jobs.submit(store, [{"step": "import", "args": {"study": study, "device": device}}])
        return {**report.to_dict(), "first": records.first_after(store, study, last)}

    return _begin(ctx, f"{study} {body}", drop, reply, bring)


@router.post("/{study}/look", response_model=Look)
def first_look(ctx: Studio, who: Administrator, study: str):
    """Queues a first look, a quick detector on pretrained features. Returns the ids of its job, encoder and fit."""
    with ctx.making(who, "run", 2) as record_owner:
        look_runs = look.look(ctx.store(), study, ctx.store().setting("device", "auto"))
        record_owner([look_runs["encoder"], look_runs["fit"]])
    return {"ok": True, **look_runs}


@router.post("/import/{task}/stop", response_model=Done)
def stop(ctx: Studio, who: Administrator, task: str):
    """Stops an import, which then stores nothing."""
    ctx.held(Imports, ctx.store()).stop(task)
    return {"ok": True}


@router.post("/import/{task}/answer", response_model=Done)
def answer(ctx: Studio, who: Administrator, task: str, body: Answered):
    """Answers the question of an import, so that it continues."""
    ctx.held(Imports, ctx.store()).answer(task, dict(body.answers), body.again)
    return {"ok": True}


@router.get("/import/{task}/sample.png", **binary("image/png"))
def asked_sample(ctx: Studio, who: Administrator, task: str, group: Id, number: Id):
    """Returns a thumbnail of a sample image in a group of images about which an import asks."""
    path = ctx.held(Imports, ctx.store()).sample(task, group, number)
    return pixels.picture(overview.preview(path, SAMPLE_SIDE))


@router.get("/import/{task}", response_model=ImportState)
def progress(ctx: Studio, who: Administrator, task: str):
    """Returns the progress of an import, and its report once it has ended."""
    return {"ok": True, **ctx.held(Imports, ctx.store()).state(task)}


@router.post("/drop", response_model=Drop)
def new_drop(ctx: Studio, who: Sighted):
    """Opens an upload for dropped files. If the reader has too many uploads, the oldest ones are deleted."""
    store, drop = ctx.store(), dropped.new_drop(ctx.home)
    with store.write():  # so that simultaneous requests cannot exceed the limit
        if not ctx.administers(who):
            for old in owners.owned(store, "drop", who)[: 1 - limits.LIMITS["upload"].most]:
                dropped.discard(ctx.home, old)
                owners.forget_owner(store, "drop", old)
        owners.set_owner(store, "drop", [drop], who)
    return {"ok": True, "drop": drop}


@router.put("/drop/{token}", response_model=Done)
async def receive(
    ctx: Studio, who: Annotated[str, owner_of("drop", "token")], token: str, path: Line, request: Request
):
    """Receives a file of an upload as the request's body."""
    arriving, limited, received = ctx.held(dropped.Arriving, ctx.home), not ctx.administers(who), 0
    target = arriving.place(token, path, limited)
    try:
        with target.open("wb") as out:
            async for chunk in request.stream():
                arriving.add(token, len(chunk), limited)
                received += len(chunk)
                await run_in_threadpool(out.write, chunk)
    except BaseException as error:
        target.unlink(missing_ok=True)
        arriving.forget(token, received)
        if isinstance(error, limits.TooMuch):
            return too_large(limits.LIMITS["upload bytes"].most)
        raise
    return {"ok": True}


@router.post("/demo", response_model=DemoJob)
def open_demo(ctx: Studio, who: Administrator, body: DemoAsked):
    """Imports the demo study with its results, or queues its training on this machine after all other work."""
    store = ctx.store()
    device = store.setting("device", "auto")
    job = demo.train(store, device) if body.train else demo.offer(store, device)
    jobs.ensure_worker(store)
    return {"ok": True, "job": job}


@router.get("/{study}/overview", response_model=Overview)
def show(ctx: Studio, who: Sighted, study: str):
    """Returns the contents of a study: counts, image sizes, the import report and, for administrators, the folder."""
    answer = overview.overview(ctx.store(), study)
    if not ctx.administers(who):
        answer["study"]["folder"] = None
    return {"ok": True, **answer}


@router.get("/{study}/next", response_model=Next)
def what_next(ctx: Studio, who: Sighted, study: str):
    """Returns facts for choosing the next step in a study, and the likely kind of its images."""
    store = ctx.store()
    return {
        "ok": True,
        "kinds": kind.KINDS,
        "guess": kind.guess(store, study),
        "kept": kind.kept(store, study),
        "scored": bool(scored_runs(store, study)),
        "trained": any(
            r["config"].get("epochs") and r["status"] == "done" for r in runs.list_runs(store, study, "pretrain")
        ),
        "decided": store.columns(learnt.DECIDED, [study])[0][0],
        "masks": len(marks.accepted(store, study)),
        "look": estimate.first_look(store, study),
    }


@router.get("/{study}/kind", response_model=Fitting)
def fitting(ctx: Studio, who: Sighted, study: str):
    """Returns the presets of synthetic lesions for a study's kind of image, or general presets if none is confirmed."""
    medmix, head = kind.lesions(ctx.store(), study)
    return {"ok": True, "medmix": medmix, "head": head}


@router.post("/{study}/kind", response_model=Labels)
def keep_kind(ctx: Studio, who: Administrator, study: str, body: Kind):
    """Confirms a study's kind of image, and sets labels of findings for it unless the study has labels or findings."""
    store = ctx.store()
    kind.keep(store, study, body.kind)
    return {"ok": True, "labels": decisions.fit_labels(store, study, body.kind, who)}


@router.get("/{study}/sample", response_model=Sample)
def draw(ctx: Studio, who: Sighted, study: str, count: Int = 24, seed: Id = 0, part: str = "all"):
    """Returns random sample cases, drawn evenly from all splits and labels or from one `part` such as "test normal"."""
    return {"ok": True, "cases": overview.sample(ctx.store(), study, max(1, min(count, 100)), seed, part)}


@router.delete("/{study}", response_model=Done)
def remove(ctx: Studio, who: Administrator, study: str):
    """Moves a study to the bin."""
    bin.put_study(ctx.store(), study, who)
    return {"ok": True}


@router.get("/case/{case_id}/tile.png", **binary("image/png"))
def tile(ctx: Studio, who: Sighted, case_id: Id, side: Side = 320):
    """Returns a case's image, scaled down to at most `side` pixels per side."""
    return pixels.picture(overview.tile(ctx.store(), case_id, max(TILE_SIDES[0], min(side, TILE_SIDES[1]))))


@router.get("/case/{case_id}/outlines", response_model=Outlines)
def outlines(ctx: Studio, who: Sighted, case_id: Id):
    """Returns the outlines of a case's region of interest and of its lesions."""
    return {"ok": True, **overview.outlines(ctx.store(), case_id)}
