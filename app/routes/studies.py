"""Routes of the Study tab: import by path or by dropping, adding cases, the overview, sample pictures.

Only administrators import images or remove studies, because a path may name any file of this machine.
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
    """A study to import.

    folder, or drop: the token of an upload. keep: copy the images. per_second: frames to take from recordings.
    patient_letters: how many first characters of a file's name identify the patient; 0: none.
    again: also import images that were erased from this home. ask: ask before storing a study whose layout needs
    interpretation, and about images that were erased from this home; an unclear folder always leads to a question.
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
    """Images to add to a study.

    path, or drop: the token of an upload. again: also add images erased from this home; ask: ask about these first.
    """

    path: Line = ""
    drop: Name | None = None
    keep: bool = False
    per_second: float | None = None
    again: bool = False
    ask: bool = False


class Answered(Body):
    """Answers to an import's question. answers: meaning of each group; again: whether to import erased images."""

    answers: dict[Line, Literal["normal", "abnormal", "out"]] = {}
    again: bool | None = None


class Kind(Body):
    kind: Name


class Task(Answer):
    """An import that has started. task: a token for requesting its state."""

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
    """Names of one patient's images that are in both training and test."""

    train: list[str]
    test: list[str]


class Report(Part):
    """The result of an import. first: id of the first new case, if cases were added to a study."""

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
    """done, total: images. started: seconds since 1970. stop: whether a stop was requested."""

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
    """Images with the same interpretation. meaning: "train normal", ..., or "" to ask; samples: how many are shown."""

    name: str
    meaning: str
    images: int
    masks: int
    why: str | None
    samples: int


class ImportQuestion(Part):
    """An import's question. erased: how many of its files were erased from this home."""

    layout: str
    groups: list[ImageGroup]
    erased: int


class AskedImport(_Import):
    """An import that waits for a person's answer; nothing of it is stored yet."""

    state: Literal["asked"]
    question: ImportQuestion


_Imports = RunningImport | AskedImport | DoneImport | FailedImport


ImportState = TypeAliasType("ImportState", Annotated[_Imports, Discriminator("state")])


class Look(Answer):
    job: int
    encoder: str
    fit: str


class DemoAsked(Body):
    """A request for the demo study. train: whether to train on it on this machine, instead of importing it."""

    train: bool = False


class DemoJob(Answer):
    """The job that computes the demo's weights or trains on it; null if the study to import already existed."""

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
    """The contents of a study.

    sizes: the four most frequent of size_count image sizes, with their numbers of images. report: of the import.
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
    """Facts for choosing a next step. guess, kept: guessed, confirmed kind of image. look: seconds of a first look."""

    kinds: dict[str, str]
    guess: str | None
    kept: str | None
    scored: bool
    trained: bool
    decided: int
    masks: int
    look: float


class Fitting(Answer):
    """Presets of fake lesions that fit the kind of image: MedMix's and the lesion head's."""

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
    """Yields the folder of the dropped files and deletes it afterwards; an error's sentence then shows no path.

    The folder stays while a person is asked.
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
    """Starts an import in the background; returns its task. The same request starts only one.

    bring(progress, top, within): imports dropped files, which lie in the folder `top`, or those that the request names
    (top is then None).
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
    """Says whether erased images are imported again; None: ask."""
    return body.again or (reply.again if body.ask else bool(reply.again))


@router.post("/import", response_model=Task)
def start(ctx: Studio, who: Administrator, body: Import):
    """Import a folder of this machine, or dropped files, as a new study."""
    store = ctx.store()
    name, folder, drop = body.name, body.folder.strip(), body.drop
    options: dict[str, Any] = {"sampling": Sampling(per_second=body.per_second), "by": who}
    options["patients"] = f"^.{{{body.patient_letters}}}" if body.patient_letters else None
    study = studies.slug(name)
    studies.demand_free_name(store, study)
    if drop is None and not folder:
        raise ValueError("give the path of a folder, or drop files on the page")
    if drop is None:
        ctx.demand_root(folder)
    reply = Reply()

    def bring(progress, top: Path | None, within: roots.Within) -> dict:
        plan = demand_plain if body.ask and not reply.given else None
        place: str | Path = folder if drop is None else dropped.root_of(ctx.home, drop)
        return studies.import_study(
            store, name, place, body.keep or drop is not None, on_progress=progress, within=within,
            answers=reply.answers, on_plan=plan, again=_erased(body, reply), **options,
        ).to_dict()  # fmt: skip

    return _begin(ctx, f"{study} {body}", drop, reply, bring)


@router.post("/{study}/add", response_model=Task)
def add(ctx: Studio, who: Administrator, study: str, body: Add):
    """Add test cases without labels: one file, all files below a folder, or dropped files.

    The run that Review opens with scores them. The report's `first` is the first new case.
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
    """Queue a first look: a quick detector on pretrained features. Returns its job, encoder and fit."""
    with ctx.making(who, "run", 2) as record_owner:
        look_runs = look.look(ctx.store(), study, ctx.store().setting("device", "auto"))
        record_owner([look_runs["encoder"], look_runs["fit"]])
    return {"ok": True, **look_runs}


@router.post("/import/{task}/stop", response_model=Done)
def stop(ctx: Studio, who: Administrator, task: str):
    """Stop an import; nothing of it is stored."""
    ctx.held(Imports, ctx.store()).stop(task)
    return {"ok": True}


@router.post("/import/{task}/answer", response_model=Done)
def answer(ctx: Studio, who: Administrator, task: str, body: Answered):
    """Answer an import's question, so that it continues."""
    ctx.held(Imports, ctx.store()).answer(task, dict(body.answers), body.again)
    return {"ok": True}


@router.get("/import/{task}/sample.png", **binary("image/png"))
def asked_sample(ctx: Studio, who: Administrator, task: str, group: Id, number: Id):
    """Return a thumbnail of one of the first images of a group that an import asks about."""
    path = ctx.held(Imports, ctx.store()).sample(task, group, number)
    return pixels.picture(overview.preview(path, SAMPLE_SIDE))


@router.get("/import/{task}", response_model=ImportState)
def progress(ctx: Studio, who: Administrator, task: str):
    """Return an import's progress, and its report once it is done."""
    return {"ok": True, **ctx.held(Imports, ctx.store()).state(task)}


@router.post("/drop", response_model=Drop)
def new_drop(ctx: Studio, who: Sighted):
    """Open an upload for dropped files.

    A reader's oldest uploads are deleted for the newest, so that nobody can fill the disk.
    """
    store, drop = ctx.store(), dropped.new_drop(ctx.home)
    with store.write():  # simultaneous requests run one after the other
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
    """Receive one dropped file; the request's body is the file."""
    arriving, limited, received = ctx.held(dropped.Arriving, ctx.home), not ctx.administers(who), 0
    target = arriving.place(token, path, limited)
    try:
        with target.open("wb") as out:
            async for chunk in request.stream():
                arriving.add(token, len(chunk), limited)
                received += len(chunk)
                await run_in_threadpool(out.write, chunk)
    except BaseException as error:
        target.unlink(missing_ok=True)  # an incomplete file is deleted
        arriving.forget(token, received)
        if isinstance(error, limits.TooMuch):
            return too_large(limits.LIMITS["upload bytes"].most)
        raise
    return {"ok": True}


@router.post("/demo", response_model=DemoJob)
def open_demo(ctx: Studio, who: Administrator, body: DemoAsked):
    """Import the ready demo study, or queue its training on this machine, after all other work."""
    store = ctx.store()
    device = store.setting("device", "auto")
    job = demo.train(store, device) if body.train else demo.offer(store, device)
    jobs.ensure_worker(store)
    return {"ok": True, "job": job}


@router.get("/{study}/overview", response_model=Overview)
def show(ctx: Studio, who: Sighted, study: str):
    """Return a study's contents: counts, sizes, the report of its import; for administrators, its folder."""
    answer = overview.overview(ctx.store(), study)
    if not ctx.administers(who):
        answer["study"]["folder"] = None
    return {"ok": True, **answer}


@router.get("/{study}/next", response_model=Next)
def what_next(ctx: Studio, who: Sighted, study: str):
    """Return the facts that decide a study's next steps, and the likely kind of its images."""
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
    """Return the presets of fake lesions for the confirmed kind of image, else those for any kind."""
    medmix, head = kind.lesions(ctx.store(), study)
    return {"ok": True, "medmix": medmix, "head": head}


@router.post("/{study}/kind", response_model=Labels)
def keep_kind(ctx: Studio, who: Administrator, study: str, body: Kind):
    """Confirm the kind of image, and set labels of findings for it unless the study has its own, or findings."""
    store = ctx.store()
    kind.keep(store, study, body.kind)
    return {"ok": True, "labels": decisions.fit_labels(store, study, body.kind, who)}


@router.get("/{study}/sample", response_model=Sample)
def draw(ctx: Studio, who: Sighted, study: str, count: Int = 24, seed: Id = 0, part: str = "all"):
    """Draw random sample cases of all groups, or of one `part` such as "test normal"."""
    return {"ok": True, "cases": overview.sample(ctx.store(), study, max(1, min(count, 100)), seed, part)}


@router.delete("/{study}", response_model=Done)
def remove(ctx: Studio, who: Administrator, study: str):
    """Put a study into the bin."""
    bin.put_study(ctx.store(), study, who)
    return {"ok": True}


@router.get("/case/{case_id}/tile.png", **binary("image/png"))
def tile(ctx: Studio, who: Sighted, case_id: Id, side: Side = 320):
    """Return a case's image within `side` x `side` pixels."""
    return pixels.picture(overview.tile(ctx.store(), case_id, max(TILE_SIDES[0], min(side, TILE_SIDES[1]))))


@router.get("/case/{case_id}/outlines", response_model=Outlines)
def outlines(ctx: Studio, who: Sighted, case_id: Id):
    """Return the outlines of a case's region of interest and of its lesions."""
    return {"ok": True, **overview.outlines(ctx.store(), case_id)}
