"""Drawings that are not saved yet, kept for the reader who began them: strokes, their undo history, open corners.

A draft is no lesion mask: it is in no export, no metric and no other reader's view. Its bytes are the page's own
(app/widgets/review/js/draft_format.js) and are not looked into here.
"""

from __future__ import annotations

from core.studio.db.store import NotFound, now
from core.studio.review.context import RequestContext

LARGEST = 8 << 20  # bytes of one draft


def keep(context: RequestContext, body: bytes) -> None:
    """Store the draft of the context's case in the place of the last one. Raises ValueError if it is empty or larger
    than LARGEST."""
    if not 0 < len(body) <= LARGEST:
        raise ValueError(f"A draft has 1 to {LARGEST} bytes, not {len(body)}. Save the mask as a version.")
    row = [context.asked_case["id"], context.reader, body, now()]
    context.store.execute("INSERT OR REPLACE INTO mask_drafts VALUES (?, ?, ?, ?)", row)


def body(context: RequestContext) -> bytes:
    """The draft's bytes. Raises NotFound if there is none."""
    query = "SELECT body FROM mask_drafts WHERE case_id = ? AND reader = ?"
    row = context.store.one(query, [context.asked_case["id"], context.reader])
    if row is None:
        raise NotFound("There is no draft of this case.")
    return bytes(row["body"])


def drop(context: RequestContext) -> None:
    """Remove the draft, if there is one."""
    here = [context.asked_case["id"], context.reader]
    context.store.execute("DELETE FROM mask_drafts WHERE case_id = ? AND reader = ?", here)


def listed(context: RequestContext) -> list[dict]:
    """[{"id": case, "updated"}] of the reader's drafts in the study, the last one first."""
    return context.store.query(
        "SELECT d.case_id AS id, d.updated FROM mask_drafts d JOIN cases c ON c.id = d.case_id "
        "WHERE d.reader = ? AND c.study = ? ORDER BY d.updated DESC",
        [context.reader, context.study],
    )
