"""The MedMix tab, and the forms that it shares with Training."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator
from typing_extensions import NotRequired, TypeAliasType

from app.routes._answers.shared import Answer, Done, Rectangle, Values


class _Field(Answer):
    key: str
    label: str
    help: str


class NumberField(_Field):
    """min, max: null where the form knows no limit."""

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
    """One of the options, or several of them; names: what people read instead of an option."""

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


class Group(Answer):
    title: str
    fields: list[Field]


class WeakForm(Answer):
    form: list[Group]
    presets: dict[str, Values]


class Strong(Answer):
    """section: of the paper."""

    title: str
    section: str
    form: list[Group]
    defaults: Values


class MedMixForms(Answer):
    strong: dict[str, Strong]
    weak: WeakForm


class DonorStudy(Answer):
    id: str
    name: str


class DonorStudies(Answer):
    studies: list[DonorStudy]


class ReadPreset(Answer):
    """As it stands in a file."""

    name: str
    strong: str
    config: Values
    note: str


class Preset(ReadPreset):
    """The numbers, the reader and the time only of those that readers have made; version 0 came with the studio."""

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


class LesionSimilarity(Answer):
    """real: how many real lesions were looked at."""

    auroc_real: float
    auroc_synthetic: float
    closeness: float
    distance: float
    real: int


class Said(Answer):
    kind: Literal["good", "warn"]
    text: str


class Probe(Answer):
    """confusion: the true class by row. near: null where the study has too few lesion masks. study: whose real lesions
    those of `near` are."""

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
    study: str
    seconds: float


class GridSource(Answer):
    """Of what was pasted into sample m of A_n: cut out at `box` of the donor's column, put to `to`; in parts of the
    side."""

    n: int
    m: int
    slot: int
    box: Rectangle
    to: Rectangle
    donor: int


class GridHead(Answer):
    """The head of a painted grid; its mosaic follows as a JPEG. outlines: polygons by class and sample.

    aspect: width by height of the images before they were squeezed to squares; null where they differ.
    """

    rows: int
    cols: int
    side: int
    names: list[str]
    outlines: list[list[list[list[tuple[float, float]]]]]
    sources: list[GridSource]
    seconds: float
    aspect: float | None


ANSWERS: dict[str, Any] = {
    "GET /api/medmix/forms": MedMixForms,
    "GET /api/medmix/donors": DonorStudies,
    "GET /api/medmix/presets": Presets,
    "POST /api/medmix/presets": KeptPreset,
    "POST /api/medmix/presets/read": PresetOfFile,
    "DELETE /api/medmix/presets/{name}": Done,
    "POST /api/medmix/probe": Probe,
}
BINARY = {
    "POST /api/medmix/grid": ("application/octet-stream",),
    "POST /api/medmix/figure.{kind}": ("image/png", "image/svg+xml", "application/pdf"),
    "POST /api/medmix/presets.yaml": ("text/plain",),
}
HEADS: dict[str, Any] = {"POST /api/medmix/grid": GridHead}
