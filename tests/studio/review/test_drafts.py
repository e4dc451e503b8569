"""Drafts of drawn masks: one for each case and reader, gone when the mask is saved."""

from __future__ import annotations

import numpy as np
import pytest

from core.studio.db.store import NotFound
from core.studio.review import drafts, masks
from tests.studio.review.conftest import STUDY


def test_a_draft_is_its_readers_own_and_ends_with_the_saved_mask(room):
    store, _ = room
    first, second = [r["id"] for r in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT 2")]
    drafts.keep(store, first, "ann", b"one")
    drafts.keep(store, first, "ann", b"two")
    drafts.keep(store, second, "ann", b"three")
    drafts.keep(store, first, "ben", b"four")
    assert drafts.body(store, first, "ann") == b"two" and drafts.body(store, first, "ben") == b"four"
    assert [d["id"] for d in drafts.listed(store, STUDY, "ann")] in ([second, first], [first, second])
    masks.save(store, first, np.ones((60, 72), bool), "ann")
    with pytest.raises(NotFound):
        drafts.body(store, first, "ann")
    assert drafts.body(store, first, "ben") == b"four", "another reader's draft stays"
    drafts.drop(store, second, "ann")
    assert drafts.listed(store, STUDY, "ann") == []


def test_a_draft_has_a_case_and_a_size(room):
    store, _ = room
    case = store.one("SELECT id FROM cases LIMIT 1")["id"]
    for body in (b"", bytes(drafts.LARGEST + 1)):
        with pytest.raises(ValueError, match="bytes"):
            drafts.keep(store, case, "ann", body)
    with pytest.raises(NotFound):
        drafts.keep(store, 10**6, "ann", b"x")
    store.execute("DELETE FROM cases WHERE id = ?", [case])
    assert store.query("SELECT 1 FROM mask_drafts WHERE case_id = ?", [case]) == []
