"""Drafts of drawn masks: one for each case and reader, gone when the mask is saved."""

from __future__ import annotations

import numpy as np
import pytest

from core.studio.db.store import NotFound
from core.studio.review import masks
from tests.studio.review.conftest import STUDY, asks, save_mask


def test_a_draft_is_its_readers_own_and_ends_with_the_saved_mask(room):
    store, _ = room
    first, second = [r["id"] for r in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT 2")]
    masks.keep_draft(asks(store, case_id=first), b"one")
    masks.keep_draft(asks(store, case_id=first), b"two")
    masks.keep_draft(asks(store, case_id=second), b"three")
    masks.keep_draft(asks(store, "ben", case_id=first), b"four")
    assert (
        masks.draft_body(asks(store, case_id=first)) == b"two"
        and masks.draft_body(asks(store, "ben", case_id=first)) == b"four"
    )
    assert [d["id"] for d in masks.list_drafts(asks(store, study=STUDY))] in ([second, first], [first, second])
    save_mask(store, first, np.ones((60, 72), bool), "ann")
    with pytest.raises(NotFound):
        masks.draft_body(asks(store, case_id=first))
    assert masks.draft_body(asks(store, "ben", case_id=first)) == b"four", "another reader's draft stays"
    masks.drop_draft(asks(store, case_id=second))
    assert masks.list_drafts(asks(store, study=STUDY)) == []


def test_a_draft_has_a_case_and_a_size(room):
    store, _ = room
    case = store.one("SELECT id FROM cases LIMIT 1")["id"]
    for body in (b"", bytes(masks.LARGEST + 1)):
        with pytest.raises(ValueError, match="bytes"):
            masks.keep_draft(asks(store, case_id=case), body)
    with pytest.raises(NotFound):
        masks.keep_draft(asks(store, case_id=10**6), b"x")
    store.execute("DELETE FROM cases WHERE id = ?", [case])
    assert store.query("SELECT 1 FROM mask_drafts WHERE case_id = ?", [case]) == []
