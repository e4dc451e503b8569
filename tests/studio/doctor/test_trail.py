"""The doctor verifies the audit trail's hash chain, and prints its last hash."""

from __future__ import annotations

from core.studio.db import audit
from core.studio.doctor.checks import examine


def trail(store) -> tuple[str, str]:
    ((level, text),) = [(f["level"], f["text"]) for f in examine(store, "cpu") if f["check"] == "audit"]
    return level, text


def test_an_unbroken_chain_is_well_and_an_altered_event_is_not(store):
    for kind in ("roots", "blind"):
        audit.record(store, "ann", kind)
    level, text = trail(store)
    assert level == "ok" and "2 events" in text and audit.verify(store)["head"][:16] in text
    store.execute("DROP TRIGGER events_no_update")
    store.execute("UPDATE events SET who = 'eve' WHERE id = 1")
    assert trail(store) == ("bad", "event 1 was altered")
