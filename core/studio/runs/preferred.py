"""Decides which detector is shown first if several detectors have scored a study."""

from __future__ import annotations

from core.studio.db import audit
from core.studio.db.store import Store

AT_ONCE = "blend"  # for a first look, because it needs no training
USUAL = "blend-head"  # for an encoder that was pre-trained on the study
PREFERRED = (USUAL, AT_ONCE, "lesion-head")
LEARNT = "learnt"
ADOPTED = "adopted:{}"  # name of the setting with a study's adopted run


def preference(method: str) -> int:
    """Returns the rank of a detector on the page, 0 first: its index in PREFERRED, or the rank after these.

    A detector that has learned from annotations comes last, because it is shown only if somebody chooses it.
    """
    if method == LEARNT:
        return len(PREFERRED) + 1
    return PREFERRED.index(method) if method in PREFERRED else len(PREFERRED)


def adopt(store: Store, study: str, run: str | None, reader: str) -> None:
    """Shows a run first among the study's detectors, for all readers. With None, the default order applies again.

    The choice and the reader are recorded in the audit trail.
    """
    with store.write():
        before = store.setting(ADOPTED.format(study))
        store.set_setting(ADOPTED.format(study), run)
        audit.record(store, reader, "adopted", study=study, before={"run": before}, after={"run": run})
