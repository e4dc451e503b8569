"""Blind-first reading: what a reader may not know before the first decision is on disk.

Everything that leaves the server about a case asks here first.
"""

from __future__ import annotations

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.review.accounts import role_of

SIGHTED = ("adjudicator", "administrator")


class Hidden(ValueError):
    """Asked for what a blind study hides until the reader has committed."""


def is_blind(store: Store, study: str) -> bool:
    """Whether the study is read blind first."""
    return bool(store.setting(f"blind:{study}", False))


def set_blind(store: Store, study: str, on: bool, by: str) -> None:
    """Switch a study's mode; recorded."""
    with store.write():
        before = is_blind(store, study)
        if before != on:
            store.set_setting(f"blind:{study}", on)
            audit.record(store, by, "blind", study=study, before=before, after=on)


def applies(store: Store, study: str, reader: str) -> bool:
    """Whether `reader` reads this study blind: readers do, adjudicators and administrators do not."""
    return is_blind(store, study) and role_of(store, reader) not in SIGHTED


def committed(store: Store, case_id: int, reader: str) -> bool:
    """Whether the reader's first decision on the case is on disk."""
    query = "SELECT 1 FROM current_reviews WHERE case_id = ? AND reader = ? AND stage = 'first'"
    return store.one(query, [case_id, reader]) is not None


def hides(store: Store, case: dict, reader: str) -> bool:
    """case needs id and study. True: no score, heat map, mask, label, name or other reader's word may be shown."""
    return applies(store, case["study"], reader) and not committed(store, case["id"], reader)


def demand(store: Store, case: dict, reader: str) -> None:
    """Hidden, as a sentence, where `hides` says so."""
    if hides(store, case, reader):
        raise Hidden("This study is read blind: decide first, then the heat map, the score and the mask are shown.")


def reads_blind(store: Store, reader: str) -> bool:
    """Whether any study is read blind by `reader`: then the rooms that show what a study holds are closed to them."""
    query = "SELECT 1 FROM settings WHERE key LIKE 'blind:%' AND value = 'true'"
    return store.one(query) is not None and role_of(store, reader) not in SIGHTED
