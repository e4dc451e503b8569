"""Routes of the MedMix tab: its forms, the grid as pixels, figures, presets and the linear probe."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import Discriminator, StringConstraints
from starlette.concurrency import run_in_threadpool
from typing_extensions import NotRequired, TypeAliasType

from app.access.permissions import Reader, Studio, owner_of
from app.access.turns import heavy
from app.context import Context
from app.routes._shared import Rectangle, Values
from app.routes._types import LONGEST_TEXT, Answer, Body, Done, Id, Line, Name, Part, Settings, binary
from core.engine.progress import Stop
from core.studio.db import owners
from core.studio.db.limits import MB
from core.studio.forms.fields import medmix_forms
from core.studio.ingest import donors as donor_pool
from core.studio.ingest import uploads as dropped
from core.studio.medmix import presets
from core.studio.medmix import preview as medmix_view
from core.studio.medmix.preview import Samples
from core.studio.review import sessions

router = APIRouter(prefix="/api/medmix", tags=["medmix"])
LOOK = 0.25  # seconds between checks whether the client is still connected
GRID = 400 * MB  # of memory: the largest grid, or a probe
T = TypeVar("T")


class Scene(Body):
    """Settings of MedMix's picture: a `Scene` of core/studio/medmix/preview.py, which checks them."""

    scene: Settings


class Figure(Scene):
    outlines: bool = True
    title: Name = ""


class ProbeScene(Scene):
    encoder: Name = ""


class NewPreset(Body):
    config: Settings
    name: Name
    strong: Name = "medmix"
    note: Line = ""


class PresetFile(Body):
    config: Settings
    name: Name
    strong: Name = "medmix"
    version: Id = 0


class YamlText(Body):
    text: Annotated[str, StringConstraints(max_length=LONGEST_TEXT)]


class _Field(Part):
    key: str
    label: str
    help: str


class NumberField(_Field):
    """A number. min, max: null without a limit."""

    kind: Literal["number", "integer"]
    min: float | None
    max: float | None
    step: float | Literal["any"]
    log: NotRequired[bool]


class RangeField(_Field):
    """Two values, from and to."""

    kind: Literal["range"]
    min: float
    max: float
    step: float


class ChoiceField(_Field):
    """A choice of one option, or of several. names: labels of the options."""

    kind: Literal["choice", "several"]
    options: list[str]
    names: dict[str, str]


class NumbersField(_Field):
    """A fixed number of values, each with its name."""

    kind: Literal["numbers"]
    names: list[str]
    min: float | None
    max: float | None
    step: float | Literal["any"]


class PlainField(_Field):
    kind: Literal["study", "flag", "text"]


_Fields = NumberField | RangeField | ChoiceField | NumbersField | PlainField


Field = TypeAliasType("Field", Annotated[_Fields, Discriminator("kind")])


class Group(Part):
    title: str
    fields: list[Field]


class WeakForm(Part):
    form: list[Group]
    presets: dict[str, Values]


class Strong(Part):
    """A strong augmentation. section: the section of the paper that describes it."""

    title: str
    section: str
    form: list[Group]
    defaults: Values


class MedMixForms(Answer):
    strong: dict[str, Strong]
    weak: WeakForm


class DonorStudy(Part):
    id: str
    name: str


class DonorStudies(Answer):
    studies: list[DonorStudy]


class ReadPreset(Part):
    """A preset as read from a file."""

    name: str
    strong: str
    config: Values
    note: str


class Preset(ReadPreset):
    """A preset of an augmentation; version 0 came with the studio.

    id, reader, created, removed: only present if a reader saved the preset.
    """

    version: int
    built_in: bool
    id: NotRequired[int]
    reader: NotRequired[str | None]
    created: NotRequired[str]
    removed: NotRequired[int]


class Presets(Answer):
    presets: list[Preset]


class KeptPreset(Answer):
    preset: Preset


class PresetOfFile(Answer):
    preset: ReadPreset


class LesionSimilarity(Part):
    """How similar the fake lesions are to the study's real ones, in an encoder's features.

    auroc_real, auroc_synthetic: AUROC of held-out real lesions and of fake lesions against normal patches, by a linear
    classifier of real lesions. closeness: (auroc_synthetic - 0.5) / (auroc_real - 0.5), clipped to 0 to 1. distance:
    energy distance of fake to real lesions, relative to that of normal patches. real: number of real lesions.
    """

    auroc_real: float
    auroc_synthetic: float
    closeness: float
    distance: float
    real: int


class Said(Part):
    kind: Literal["good", "warn"]
    text: str


class Probe(Answer):
    """How well a linear probe separates the classes of a scene.

    confusion: rows are true classes. survival: mean share of a lesion's pixels that weak views keep; lost: share of
    views that keep less than half. near: null if lesion masks are too few or hidden from the reader. side: in pixels.
    """

    accuracy: float
    chance: float
    lesion_accuracy: float
    confusion: list[list[int]]
    survival: float | None
    lost: float | None
    near: LesionSimilarity | None
    words: list[Said]
    encoder: str
    images: int
    side: int
    study: str
    seconds: float


class GridSource(Part):
    """A piece that was pasted into sample m of class A_n.

    donor: column of the source image (`cols` or more: another study). box, to: where cut and pasted, in image sides.
    """

    n: int
    m: int
    slot: int
    box: Rectangle
    to: Rectangle
    donor: int


class GridHead(Part):
    """The head of a painted grid; its mosaic follows as a JPEG. outlines: polygons by class and sample.

    aspect: width / height of the images before they were resized to squares; null if they differ.
    """

    rows: int
    cols: int
    side: int
    names: list[str]
    outlines: list[list[list[list[tuple[float, float]]]]]
    sources: list[GridSource]
    seconds: float
    aspect: float | None


def folder_of(ctx: Context, scene: medmix_view.Scene) -> Path | None:
    """Returns the folder of the images that were dropped for a scene, or None if it uses none."""
    return dropped.drop_folder(ctx.home, scene.drop) if scene.drop else None


def hidden(ctx: Context, who: str, scene: medmix_view.Scene) -> bool:
    """Returns whether the reader reads the scene's study blind, which hides its file names and lesions."""
    return scene.study in sessions.standing(ctx.store(), who)["blind"]


async def while_asked(request: Request, work: Callable[[Stop], T]) -> T:
    """Returns the result of `work`, run in a thread; its argument returns whether the client has disconnected."""
    left = threading.Event()
    task = asyncio.ensure_future(run_in_threadpool(work, left.is_set))
    while not task.done():
        await asyncio.wait({task}, timeout=LOOK)
        if await request.is_disconnected():
            left.set()
    return task.result()


@router.get("/forms", response_model=MedMixForms)
def forms(ctx: Studio, who: Reader):
    """Return the forms of the strong and weak augmentations."""
    return {"ok": True, **medmix_forms()}


@router.post("/grid", dependencies=[heavy(GRID)], **binary("application/octet-stream", head=GridHead))
async def grid(ctx: Studio, who: Reader, request: Request, body: Scene):
    """Draw a grid of images: classes A_0 to A_k by sample. Drawing stops if the client disconnects."""

    def drawn(should_stop: Stop) -> bytes:
        asked = medmix_view.Scene.from_dict(body.scene)
        samples, blind = ctx.held(Samples, ctx.store()), hidden(ctx, who, asked)
        return medmix_view.draw_grid(samples, asked, folder_of(ctx, asked), blind, should_stop).pack()

    packed = await while_asked(request, drawn)
    return Response(packed, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.post("/figure.{kind}", dependencies=[heavy(GRID)], **binary("image/png", "image/svg+xml", "application/pdf"))
def save_figure(ctx: Studio, who: Reader, kind: str, body: Figure):
    """Draw the grid as a figure."""
    if kind not in medmix_view.TYPES:
        raise ValueError(f"a figure is one of {', '.join(medmix_view.TYPES)}, not {kind!r}")
    asked = medmix_view.Scene.from_dict(body.scene)
    picture = medmix_view.figure(
        medmix_view.draw_grid(ctx.held(Samples, ctx.store()), asked, folder_of(ctx, asked), hidden(ctx, who, asked)),
        kind,
        body.outlines,
        body.title,
    )
    return Response(picture, media_type=medmix_view.TYPES[kind])


@router.post("/probe", response_model=Probe, dependencies=[heavy(GRID)])
async def numbers(ctx: Studio, who: Reader, request: Request, body: ProbeScene):
    """Measure how well a linear probe on an encoder's features separates the classes of a scene."""

    def measured(should_stop: Stop) -> dict:
        from core.studio.medmix import probe  # scikit-learn, which the page's start does not wait for

        scene = medmix_view.Scene.from_dict(body.scene)
        return probe.probe(ctx.store(), scene, body.encoder or None, hidden(ctx, who, scene), should_stop)

    return {"ok": True, **await while_asked(request, measured)}


@router.get("/donors", response_model=DonorStudies)
def donors(ctx: Studio, who: Reader):
    """List studies from whose images MedMix may cut pieces to paste."""
    return {"ok": True, "studies": donor_pool.donor_studies(ctx.store())}


@router.get("/presets", response_model=Presets)
def list_presets(ctx: Studio, who: Reader):
    """List presets that came with the studio and those that readers saved, with their versions."""
    return {"ok": True, "presets": presets.list_presets(ctx.store(), versions=True)}


@router.post("/presets", response_model=KeptPreset)
def save(ctx: Studio, who: Reader, body: NewPreset):
    """Save a preset; saving under an existing name adds a version."""
    with ctx.making(who, "preset") as own:
        preset = presets.save_preset(ctx.store(), body.name, body.strong, body.config, body.note, who)
        own([preset["name"]])
    return {"ok": True, "preset": preset}


@router.delete("/presets/{name}", response_model=Done)
def remove(ctx: Studio, who: Annotated[str, owner_of("preset", "name")], name: str):
    """Remove a preset."""
    presets.remove_preset(ctx.store(), name)
    owners.forget_owner(ctx.store(), "preset", name)
    return {"ok": True}


@router.post("/presets.yaml", **binary("text/plain"))
def export(ctx: Studio, who: Reader, body: PresetFile):
    """Return a preset as YAML."""
    preset = {"name": body.name, "version": body.version, "strong": body.strong, "note": ""}
    return PlainTextResponse(presets.to_yaml({**preset, "config": presets.checked(body.strong, body.config)}))


@router.post("/presets/read", response_model=PresetOfFile)
def read(ctx: Studio, who: Reader, body: YamlText):
    """Read a preset from YAML and check it; nothing is saved."""
    return {"ok": True, "preset": presets.from_yaml(body.text)}
