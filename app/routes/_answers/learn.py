"""Learning from what readers marked: what there is to learn from, and how what was learnt compares."""

from __future__ import annotations

from typing import Any, Literal

from app.routes._answers.shared import Answer, Job


class LearnFit(Answer):
    """A scored fit that can be learnt on from. seconds: about how long that takes; null where it is not known."""

    id: str
    name: str
    title: str
    seconds: float | None


class MeasureBeside(Answer):
    """interval: 95 %, of the difference. enough: whether there are enough images to tell."""

    old: float | None
    new: float | None
    difference: float | None
    interval: tuple[float, float] | None
    images: int
    enough: bool


class LearntBeside(Answer):
    """Of the run and the one that it learnt on from, on `cases` that it has not seen; `left_out` it has."""

    base: str
    run: str
    cases: int
    left_out: int
    measures: dict[Literal["auroc", "pixel_auroc", "dice", "pro"], MeasureBeside]
    verdict: Literal["better", "worse", "mixed", "same", "few"]
    words: str


class LearntRun(Answer):
    """share: of the learnt map, 0 where it did not help on marked images left out; null until it is fitted."""

    id: str
    name: str
    created: str
    status: str
    base: str
    masks: int
    share: float | None
    job: Job | None
    comparison: LearntBeside | None


class Learning(Answer):
    """masks, patients: accepted ones; it takes `least` patients, or images where these are not known."""

    masks: int
    patients: int
    readers: list[str]
    least: int
    fits: list[LearnFit]
    learnt: list[LearntRun]


class AskedLearning(Answer):
    job: int
    run: str


ANSWERS: dict[str, Any] = {"GET /api/learn/{study}": Learning, "POST /api/learn/{study}": AskedLearning}
BINARY: dict[str, tuple[str, ...]] = {}
