"""Bodies of the MedMix tab: scenes, figures, presets."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from app.routes._bodies.base import Body
from app.routes._types import LONGEST_TEXT, Id, Line, Name, Settings


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
