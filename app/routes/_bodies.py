"""What the page may send: one model for each route's body.

A body that does not fit is answered with 422 and a sentence (errors.py). Keys that no model names are passed over.
"""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Interval
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from app.routes._types import LONGEST_TEXT, Finite, Id, Int, Line, Name, Seeds, Settings


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)


class Import(Body):
    """folder, or drop: the token of an upload. keep: copy the images. per_second: frames taken from recordings.

    patient_letters: so many first characters of a file's name are its patient; 0: the name does not say.
    """

    folder: Line = ""
    name: Name = ""
    keep: bool = False
    drop: Name | None = None
    per_second: float = 1.0
    patient_letters: int = Field(default=0, ge=0, le=100)


class Add(Body):
    """path, or drop: the token of an upload."""

    path: Line = ""
    drop: Name | None = None
    keep: bool = False
    per_second: float | None = None


class Watch(Body):
    """run: "" for the one that Review opens with."""

    folder: Line | None = ""
    run: Name | None = ""
    active: bool = True
    copies: bool = Field(False, alias="copy")


class Labels(Body):
    labels: Annotated[list[Name], Field(max_length=200)]


class Kind(Body):
    kind: Name


class Assign(Body):
    """per_case: 2 for double reading."""

    readers: Annotated[list[Name], Field(max_length=1000)]
    per_case: Annotated[int, Interval(ge=1, le=1000)] = 1


class Unassign(Body):
    reader: Name


class Account(Body):
    """A reader's account, by its name."""

    name: Name


class AccountRole(Account):
    role: Literal["reader", "adjudicator", "administrator"]


class Scene(Body):
    """A scene of core/studio/medmix/preview.py, which checks each of its settings."""

    scene: Settings


class Figure(Scene):
    outlines: bool = True
    title: Name = ""


class Probe(Scene):
    encoder: Name = ""


class Preset(Body):
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


class TrainingConfig(Body):
    config: Settings


class DryRun(TrainingConfig):
    study: Name


class Training(DryRun):
    """detectors: options of each detector that is fitted when the training ends, by its name."""

    detectors: dict[Name, Settings]
    name: Name = ""


class Fit(Body):
    detectors: dict[Name, Settings]


class Action(Body):
    value: Line = ""


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


class Projection(Body):
    """folder (administrators), or study: those of its cases that are not on the map."""

    folder: Line = ""
    study: Name = ""


class Travel(Body):
    """Undo and redo. list: the filters and the order of the worklist."""

    study: Name
    token: Name | None = None
    list: Settings | None = None


class Decision(Body):
    """token names the request: sent again it stores nothing. shown: what was on the screen, for the audit trail."""

    case: Id
    decision: Literal["normal", "abnormal", "unsure"]
    comment: str | None = ""
    seconds: float | None = None
    run: Name | None = None
    shown: Settings | None = None
    adjudication: bool = False
    token: Name | None = None
    list: Settings | None = None


class ReviewSettings(Body):
    """keys, show: the reader's own. labels, blind: the study's (administrators)."""

    study: Name = ""
    keys: Settings | None = None
    show: Settings | None = None
    labels: Annotated[list[Name], Field(max_length=200)] | None = None
    blind: bool | None = None


class Threshold(Body):
    case: Id
    run: Name | None = None
    before: float | None = Field(None, alias="from")
    to: float | None = None


class ReadingSession(Body):
    """choice: of core/studio/review/session_choice.py. count: 0 for all of them."""

    study: Name
    choice: Name = "all"
    count: Annotated[int, Interval(ge=0, le=1_000_000)] = 0
    blind: bool = True
    neutral: bool = True
    shuffled: bool = True


class Learn(Body):
    """fit: the scored fit to learn on from."""

    fit: Name


class Finding(Body):
    """box: x0, y0, x1, y1 in pixels of the image; a point has both corners alike."""

    case: Id
    label: Name
    comment: Line = ""
    box: Annotated[list[float], Field(min_length=4, max_length=4)] | None = None


class CaseTag(Body):
    """A tag put on cases, or taken off; numbers as the worklist has them."""

    study: Name
    cases: Annotated[list[Id], Field(min_length=1, max_length=20_000)]
    tag: Name
    remove: bool = False


class Report(Body):
    """tables: by name, none for all of them."""

    tables: Annotated[list[Name], Field(max_length=20)] = []
    seeds: Seeds = 2
    budget: Literal["quick", "paper"] = "quick"
    protocol: Literal["paper", "held-out"] = "paper"


class Clicks(Body):
    """clicks: x, y in the image's pixels, positive. window: x0, y0, x1, y1 of what is in sight; None for all of it."""

    run: Name = ""
    clicks: Annotated[list[tuple[Finite, Finite, bool]], Field(max_length=200)] = []
    window: tuple[Int, Int, Int, Int] | None = None
