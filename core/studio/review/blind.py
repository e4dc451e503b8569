"""Blind-first reading: the mode of a study, and who reads blind now. What it hides of a case: context.py."""

from __future__ import annotations

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.review import reading_sessions
from core.studio.review.people import role_of

SIGHTED = ("adjudicator", "administrator")
DECIDE_FIRST = "This study is read blind: decide first, then the heat map, the score and the mask are shown."


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


def standing(store: Store, reader: str) -> dict:
    """{"blind": studies that the reader reads blind now, "session": {"id", "study"} of the open one, or None}."""
    held = reading_sessions.open_session(store, reader)
    keys = store.query("SELECT key FROM settings WHERE key LIKE 'blind:%' AND value = 'true' ORDER BY key")
    read_blind = {row["key"].removeprefix("blind:") for row in keys} if role_of(store, reader) not in SIGHTED else set()
    return {
        "blind": sorted(read_blind | ({held["study"]} if held and held["blind"] else set())),
        "session": held and {"id": held["id"], "study": held["study"]},
    }


def reads_blind(store: Store, reader: str) -> bool:
    """Whether any study is read blind by `reader`: then the rooms that show what a study holds are closed to them. One
    that lies in the bin is read by nobody.
    """
    query = (
        "SELECT 1 FROM studies s JOIN settings k ON k.key = 'blind:' || s.id "
        "WHERE k.value = 'true' AND s.binned IS NULL LIMIT 1"
    )
    return store.one(query) is not None and role_of(store, reader) not in SIGHTED
