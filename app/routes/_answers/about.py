"""What is kept of a case besides its picture."""

from __future__ import annotations

from typing import Literal

from app.routes._answers.shared import Answer


class Spacing(Answer):
    """Millimetres of a pixel; null where the file does not say."""

    x: float
    y: float
    at: Literal["patient", "detector"]


class About(Answer):
    """What is kept of a case besides its picture. patient: the beginning of a keyed hash. text: likely burned in."""

    format: str
    patient: str | None
    study: str
    added: str
    shown_from: tuple[float, float] | None
    text: bool | None
