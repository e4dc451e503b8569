"""Drawings that are not saved yet, kept for the reader who began them: strokes, their undo history, open corners.

A draft is no lesion mask: it is in no export, no metric and no other reader's view. Its bytes are the page's own
(app/widgets/review/js/draft_format.js) and are not looked into here.
"""

from __future__ import annotations

from core.studio.db.store import NotFound, Store, now
from core.studio.review.decisions import case_row

LARGEST = 8 << 20  # bytes of one draft


def keep(store: Store, case_id: int, reader: str, body: bytes) -> None:
    """Store the draft in the place of the last one. Raises ValueError if it is empty or larger than LARGEST."""
    case_row(store, case_id)
    if not 0 < len(body) <= LARGEST:
        raise ValueError(f"A draft has 1 to {LARGEST} bytes, not {len(body)}. Save the mask as a version.")
    store.execute("INSERT OR REPLACE INTO mask_drafts VALUES (?, ?, ?, ?)", [case_id, reader, body, now()])


def body(store: Store, case_id: int, reader: str) -> bytes:
    """The draft's bytes. Raises NotFound if there is none."""
    row = store.one("SELECT body FROM mask_drafts WHERE case_id = ? AND reader = ?", [case_id, reader])
    if row is None:
        raise NotFound("There is no draft of this case.")
    return bytes(row["body"])


def drop(store: Store, case_id: int, reader: str) -> None:
    """Remove the draft, if there is one."""
    store.execute("DELETE FROM mask_drafts WHERE case_id = ? AND reader = ?", [case_id, reader])


def listed(store: Store, study: str, reader: str) -> list[dict]:
    """[{"id": case, "updated"}] of the reader's drafts in a study, the last one first."""
    return store.query(
        "SELECT d.case_id AS id, d.updated FROM mask_drafts d JOIN cases c ON c.id = d.case_id "
        "WHERE d.reader = ? AND c.study = ? ORDER BY d.updated DESC",
        [reader, study],
    )
