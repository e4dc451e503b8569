"""Blind-first reading: what a reader may not know before the first decision is on disk.

Everything that leaves the server about a case asks here first.
"""

from __future__ import annotations

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.review import reading_sessions
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
    """Whether `reader` reads this study blind: readers of a blind study do, and whoever is in a blind session of it;
    adjudicators and administrators do not otherwise."""
    held = reading_sessions.open_session(store, reader, study)
    if held is not None and held["blind"]:
        return True
    return is_blind(store, study) and role_of(store, reader) not in SIGHTED


def in_two_stages(store: Store, study: str, reader: str) -> bool:
    """Whether a second decision on a case is kept beside the first one."""
    held = reading_sessions.open_session(store, reader, study)
    return is_blind(store, study) or bool(held and held["blind"])


def neutral(store: Store, study: str, reader: str) -> bool:
    """Whether the study's cases have neutral names and numbers for this reader."""
    held = reading_sessions.open_session(store, reader, study)
    return bool(held and held["neutral"]) or applies(store, study, reader)


def committed(store: Store, case_id: int, reader: str) -> bool:
    """Whether the reader's first decision on the case is on disk: in the open session, if the case's study has one."""
    study = store.one("SELECT study FROM cases WHERE id = ?", [case_id])
    held = reading_sessions.open_session(store, reader, study["study"]) if study else None
    if held is not None:
        return reading_sessions.committed(store, held, case_id)
    query = "SELECT 1 FROM current_reviews WHERE case_id = ? AND reader = ? AND stage = 'first'"
    return store.one(query, [case_id, reader]) is not None


def hides(store: Store, case: dict, reader: str) -> bool:
    """case needs id and study. True: no score, heat map, mask, label, name or other reader's word may be shown."""
    return applies(store, case["study"], reader) and not committed(store, case["id"], reader)


def demand(store: Store, case: dict, reader: str) -> None:
    """Hidden, as a sentence, where `hides` says so."""
    if hides(store, case, reader):
        raise Hidden("This study is read blind: decide first, then the heat map, the score and the mask are shown.")


def standing(store: Store, reader: str) -> dict:
    """{"blind": studies that the reader reads blind now, "session": {"id", "study"} of the open one, or None}."""
    held = reading_sessions.open_session(store, reader)
    keys = store.query("SELECT key FROM settings WHERE key LIKE 'blind:%' AND value = 'true' ORDER BY key")
    studies = {row["key"].removeprefix("blind:") for row in keys} | ({held["study"]} if held else set())
    return {
        "blind": sorted(study for study in studies if applies(store, study, reader)),
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
