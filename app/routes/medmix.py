"""Routes of the MedMix tab: forms, the preview grid, figures, presets and the linear probe."""

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
from app.access.turns import waits_for_memory
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
GRID = 400 * MB  # memory of the largest grid, and of a probe
T = TypeVar("T")


class Scene(Body):
    """Settings of MedMix's preview, which `Scene` in core/studio/medmix/preview.py validates."""

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
    """Form field for a number. `min` and `max` are null if the number has no limit."""

    kind: Literal["number", "integer"]
    min: float | None
    max: float | None
    step: float | Literal["any"]
    log: NotRequired[bool]


class RangeField(_Field):
    """Form field for a range, given by its two ends."""

    kind: Literal["range"]
    min: float
    max: float
    step: float


class ChoiceField(_Field):
    """Form field for choosing one or several options. Each option has a name and a label."""

    kind: Literal["choice", "several"]
    options: list[str]
    names: dict[str, str]


class NumbersField(_Field):
    """Form field for a fixed number of values, each with its own name."""

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
    """Strong augmentation, with the form of its settings. `section` is the section of the paper that describes it."""

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
    """Preset that was read from a file."""

    name: str
    strong: str
    config: Values
    note: str


class Preset(ReadPreset):
    """Preset of an augmentation. Version 0 is built in. Only presets saved by readers have the optional fields."""

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
    """Similarity of synthetic lesions to the real lesions of the study, measured in an encoder's features.

    auroc_real: AUROC of a linear classifier, fitted to real lesions, for held-out real lesions against normal patches.
    auroc_synthetic: AUROC of this classifier for synthetic lesions against normal patches.
    closeness: (auroc_synthetic - 0.5) / (auroc_real - 0.5), clipped to 0 to 1.
    distance: Energy distance between synthetic and real lesions, relative to that between normal patches and lesions.
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
    """Result of a linear probe, which predicts the number of lesions in an image from the features of an encoder.

    chance, lesion_accuracy: Accuracy of guessing, and balanced accuracy of telling whether an image has lesions.
    confusion: Numbers of images by true class (row) and predicted class (column).
    survival: Mean fraction of a lesion's pixels that remain visible in a weak view, or null.
    lost: Fraction of weak views in which less than half of a lesion's pixels remain visible, or null.
    near: Similarity to real lesions, or null if too few lesion masks exist or the reader may not see them.
    side: Side length of the images in pixels.
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
    """Piece of an image that was pasted into the image in row `n` (number of lesions) and column `m` of a grid.

    donor: Column of the image from which the piece was cut; `cols` or more stands for an image of another study.
    box, to: Rectangle that was cut out, and rectangle where it was pasted, as fractions of the image's side length.
    """

    n: int
    m: int
    slot: int
    box: Rectangle
    to: Rectangle
    donor: int


class GridHead(Part):
    """JSON head of a preview grid. A JPEG with all images of the grid follows.

    outlines: Polygons around the pasted lesions, by row and column.
    aspect: Width / height of the original images, which are resized to squares; null if the images differ.
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
    """Returns the folder of the images uploaded for a scene, or None if the scene uses images of a study."""
    return dropped.drop_folder(ctx.home, scene.drop) if scene.drop else None


def hidden(ctx: Context, who: str, scene: medmix_view.Scene) -> bool:
    """Returns whether the reader reads the scene's study blind, so that file names and lesions are hidden."""
    return scene.study in sessions.session_status(ctx.store(), who)["blind"]


async def while_asked(request: Request, work: Callable[[Stop], T]) -> T:
    """Runs `work` in a thread and returns its result. `work` can call its argument to see if the client is gone."""
    has_left = threading.Event()
    task = asyncio.ensure_future(run_in_threadpool(work, has_left.is_set))
    while not task.done():
        await asyncio.wait({task}, timeout=LOOK)
        if await request.is_disconnected():
            has_left.set()
    return task.result()


@router.get("/forms", response_model=MedMixForms)
def forms(ctx: Studio, who: Reader):
    """Returns the forms of the strong and weak augmentations."""
    return {"ok": True, **medmix_forms()}


@router.post("/grid", dependencies=[waits_for_memory(GRID)], **binary("application/octet-stream", head=GridHead))
async def grid(ctx: Studio, who: Reader, request: Request, body: Scene):
    """Draws the preview grid, with a row for each number of lesions and a column for each image."""

    def drawn(should_stop: Stop) -> bytes:
        scene = medmix_view.Scene.from_dict(body.scene)
        samples, blind = ctx.held(Samples, ctx.store()), hidden(ctx, who, scene)
        return medmix_view.draw_grid(samples, scene, folder_of(ctx, scene), blind, should_stop).pack()

    packed = await while_asked(request, drawn)
    return Response(packed, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.post(
    "/figure.{kind}", dependencies=[waits_for_memory(GRID)], **binary("image/png", "image/svg+xml", "application/pdf")
)
def save_figure(ctx: Studio, who: Reader, kind: str, body: Figure):
    """Draws the preview grid as a figure of kind png, svg or pdf."""
    if kind not in medmix_view.TYPES:
        raise ValueError(f"Unknown figure format {kind!r}; choose from: {', '.join(medmix_view.TYPES)}.")
    scene, samples = medmix_view.Scene.from_dict(body.scene), ctx.held(Samples, ctx.store())
    drawn = medmix_view.draw_grid(samples, scene, folder_of(ctx, scene), hidden(ctx, who, scene))
    picture = medmix_view.figure(drawn, kind, body.outlines, body.title)
    return Response(picture, media_type=medmix_view.TYPES[kind])


@router.post("/probe", response_model=Probe, dependencies=[waits_for_memory(GRID)])
async def numbers(ctx: Studio, who: Reader, request: Request, body: ProbeScene):
    """Measures how well a linear probe predicts the number of lesions in an image from an encoder's features."""

    def measured(should_stop: Stop) -> dict:
        from core.studio.medmix import probe  # here, so that the start of the page does not wait for scikit-learn

        scene = medmix_view.Scene.from_dict(body.scene)
        return probe.probe(ctx.store(), scene, body.encoder or None, hidden(ctx, who, scene), should_stop)

    return {"ok": True, **await while_asked(request, measured)}


@router.get("/donors", response_model=DonorStudies)
def donors(ctx: Studio, who: Reader):
    """Lists the studies from whose images MedMix may cut the pieces that it pastes."""
    return {"ok": True, "studies": donor_pool.donor_studies(ctx.store())}


@router.get("/presets", response_model=Presets)
def list_presets(ctx: Studio, who: Reader):
    """Lists all versions of the built-in presets and of the presets saved by readers."""
    return {"ok": True, "presets": presets.list_presets(ctx.store(), versions=True)}


@router.post("/presets", response_model=KeptPreset)
def save(ctx: Studio, who: Reader, body: NewPreset):
    """Saves a preset. Saving under an existing name adds a version."""
    with ctx.making(who, "preset") as record_owner:
        preset = presets.save_preset(ctx.store(), body.name, body.strong, body.config, body.note, who)
        record_owner([preset["name"]])
    return {"ok": True, "preset": preset}


@router.delete("/presets/{name}", response_model=Done)
def remove(ctx: Studio, who: Annotated[str, owner_of("preset", "name")], name: str):
    """Removes a preset."""
    presets.remove_preset(ctx.store(), name)
    owners.forget_owner(ctx.store(), "preset", name)
    return {"ok": True}


@router.post("/presets.yaml", **binary("text/plain"))
def export(ctx: Studio, who: Reader, body: PresetFile):
    """Returns a preset as YAML."""
    preset = {"name": body.name, "version": body.version, "strong": body.strong, "note": ""}
    return PlainTextResponse(presets.to_yaml({**preset, "config": presets.checked(body.strong, body.config)}))


@router.post("/presets/read", response_model=PresetOfFile)
def read(ctx: Studio, who: Reader, body: YamlText):
    """Reads a preset from YAML and checks it, without saving it."""
    return {"ok": True, "preset": presets.from_yaml(body.text)}
