"""Which detector is shown first where several have scored."""

from __future__ import annotations

from core.studio.db import audit
from core.studio.db.store import Store

AT_ONCE = "blend"  # for a first look: no training
USUAL = "blend-head"  # on an encoder that was trained
PREFERRED = (USUAL, AT_ONCE, "lesion-head")
LEARNT = "learnt"
ADOPTED = "adopted:{}"  # the setting that holds a study's adopted run


def preference(method: str) -> int:
    """Ranks a detector: its place in PREFERRED, from 0; those that are not in it come after and are equal.

    One that has learnt from marks comes last: it is shown when somebody chooses it.
    """
    if method == LEARNT:
        return len(PREFERRED) + 1
    return PREFERRED.index(method) if method in PREFERRED else len(PREFERRED)


def adopt(store: Store, study: str, run: str | None, reader: str) -> None:
    """Put a run first among the study's detectors, for all its readers; None rolls that back. The runs stay.

    The choice and who made it are in the audit trail.
    """
    with store.write():
        before = store.setting(ADOPTED.format(study))
        store.set_setting(ADOPTED.format(study), run)
        audit.record(store, reader, "adopted", study=study, before={"run": before}, after={"run": run})
