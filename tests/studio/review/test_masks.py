"""Mask versions: pixel for pixel, never overwritten, restored as a new version; unsaved drawings."""

import numpy as np
import pytest

from core.studio.db import audit
from core.studio.db.store import NotFound
from core.studio.review import masks
from tests.studio.review.conftest import STUDY, asks, mask_pixels, save_mask


def _case(store, label="abnormal"):
    return store.one("SELECT * FROM cases WHERE split = 'test' AND label = ? ORDER BY id", [label])


def test_versions_add_up_and_earlier_ones_stay(room):
    store, run = room
    case = _case(store)
    rng = np.random.default_rng(0)
    drawn = [(rng.random((60, 72)) > p).astype(np.uint8) for p in (0.5, 0.99, 1.0)]
    imported = mask_pixels(store, masks.latest(store, case["id"])["id"])
    saved = [save_mask(store, case["id"], m, "ann") for m in drawn]
    assert [s["version"] for s in saved] == [2, 3, 4]
    for mask, s in zip(drawn, saved, strict=True):
        assert np.array_equal(mask_pixels(store, s["mask"]), mask)
    first = masks.versions(asks(store, study=STUDY), case["id"])[-1]
    assert first["source"] == "import" and np.array_equal(mask_pixels(store, first["id"]), imported)
    back = masks.restore(asks(store, "ben", case_id=case["id"]), saved[0]["mask"])
    query = "SELECT png FROM lesion_masks WHERE id = ?"
    assert back["version"] == 5
    assert store.first(query, [back["mask"]])["png"] == store.first(query, [saved[0]["mask"]])["png"]
    taken = save_mask(store, case["id"], drawn[0], "ann", source="run", run=run, threshold=0.5)
    row = store.first("SELECT * FROM lesion_masks WHERE id = ?", [taken["mask"]])
    assert (row["source"], row["run"], row["threshold"], row["reader"]) == ("run", run, 0.5, "ann")
    assert audit.verify(store)["ok"] and audit.trail(store)[0]["before"]["version"] == 5


def test_mistakes_are_sentences(room):
    store, _ = room
    case = _case(store)
    with pytest.raises(ValueError, match="72 x 61 pixels, but its image has 72 x 60"):
        save_mask(store, case["id"], np.zeros((61, 72)), "ann")
    with pytest.raises(ValueError, match="needs a run"):
        save_mask(store, case["id"], np.zeros((60, 72)), "ann", source="run")
    with pytest.raises(ValueError, match="(?i)unknown lesion mask 999"):
        masks.restore(asks(store, case_id=case["id"]), 999)


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
