"""One case: its detail, its pictures, masks, findings, drafts."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired

from app.routes._answers.about import About, Spacing
from app.routes._answers.shared import Answer, Decision, Done, Label, Rectangle, ReviewStage, Split


class Remark(Answer):
    words: str
    more: str
    ok: bool


class Reading(Answer):
    """What a run says of a case. flagged: 0 or 1."""

    run: str
    score: float | None
    percentile: float | None
    flagged: int | None
    has_map: bool
    words: str
    steady: Remark | None
    members: Remark | None


class OwnReview(Answer):
    """active: 0 once it is undone."""

    id: int
    decision: Decision
    comment: str
    created: str
    stage: ReviewStage
    active: int


class OthersReview(Answer):
    reader: str
    stage: ReviewStage
    decision: Decision
    comment: str


class MaskVersion(Answer):
    id: int
    case_id: int
    version: int
    source: Literal["import", "hand", "run"]
    reader: str | None
    created: str
    run: str | None
    threshold: float | None
    note: str | None


class Finding(Answer):
    """box: in pixels of the image; a point has both corners alike."""

    id: int
    label: str
    comment: str
    reader: str
    created: str
    mask_version: int | None
    box: Rectangle | None


class CaseDetail(Answer):
    """Nothing below `mine` while the case is hidden from a blind reader; others, frames, recording: never of a study
    that is read blind; about: never under neutral names. kinds: those tags that came with the import."""

    id: int
    v: str
    width: int
    height: int
    bits: int | None
    name: str
    blind: bool
    mine: list[OwnReview]
    frame: NotRequired[int]
    modality: NotRequired[str | None]
    spacing: NotRequired[Spacing | None]
    label: NotRequired[Label]
    split: NotRequired[Split]
    tags: NotRequired[list[str]]
    kinds: NotRequired[list[str]]
    readings: NotRequired[dict[str, Reading | None]]
    masks: NotRequired[list[MaskVersion]]
    findings: NotRequired[list[Finding]]
    about: NotRequired[About]
    others: NotRequired[list[OthersReview]]
    frames: NotRequired[int]
    recording: NotRequired[int]


class Frame(Answer):
    """flagged: 0 or 1."""

    id: int
    frame: int
    percentile: float | None
    score: float | None
    flagged: int | None


class Timeline(Answer):
    frames: list[Frame]


class Draft(Answer):
    """id: the case's."""

    id: int
    updated: str


class Drafts(Answer):
    drafts: list[Draft]


class Findings(Answer):
    findings: list[Finding]


class RestoredMask(Answer):
    mask: int
    version: int
    pixels: int
    masks: list[MaskVersion]


class SavedMask(RestoredMask):
    findings: list[Finding]


class PictureOfCase(Answer):
    id: int
    name: str
    v: str
    width: int
    height: int
    bits: int | None


class NearestCase(PictureOfCase):
    distance: float


class NearestCases(Answer):
    cases: list[NearestCase]


class UsualDistance(Answer):
    median: float
    largest: float
    count: int


class Explained(Answer):
    """Boxes are in parts of the images' width and height."""

    box: Rectangle
    there: Rectangle
    case: PictureOfCase
    distance: float
    usual: UsualDistance | None


class PackedPart(Answer):
    """A part of a case's pack; its bytes follow the head."""

    name: str
    bytes: int
    headers: dict[str, str | int]


ANSWERS: dict[str, Any] = {
    "GET /api/review/timeline/{case_id}": Timeline,
    "GET /api/review/drafts": Drafts,
    "POST /api/review/draft/{case_id}": Done,
    "DELETE /api/review/draft/{case_id}": Done,
    "POST /api/review/finding": Findings,
    "DELETE /api/review/finding/{finding}": Findings,
    "POST /api/review/mask/{case_id}": SavedMask,
    "POST /api/review/restore/{mask_id}": RestoredMask,
    "GET /api/case/{case_id}/nearest": NearestCases,
    "GET /api/case/{case_id}/explain": Explained,
}
BINARY = {
    "GET /api/review/draft/{case_id}": ("application/octet-stream",),
    "POST /api/review/segment/{case_id}": ("application/octet-stream",),
    "GET /api/case/{case_id}/image.png": ("image/png",),
    "GET /api/case/{case_id}/thumb.png": ("image/png",),
    "GET /api/case/{case_id}/tile.webp": ("image/webp",),
    "GET /api/case/{case_id}/mask.png": ("image/png",),
    "GET /api/case/{case_id}/raw": ("application/octet-stream",),
    "GET /api/case/{case_id}/mask.bits": ("application/octet-stream",),
    "GET /api/case/{case_id}/heat": ("application/octet-stream",),
    "GET /api/case/{case_id}/roi.bits": ("application/octet-stream",),
    "GET /api/case/{case_id}/pack": ("application/octet-stream",),
}
HEADS: dict[str, Any] = {"GET /api/case/{case_id}/pack": list[PackedPart]}
