"""Findings of a case: with a mask, at a point, in a box; several of them; only one's own are taken back."""

from __future__ import annotations

import pytest

from core.studio.db import audit
from core.studio.db.store import NotFound
from core.studio.review import decisions
from tests.studio.review.conftest import STUDY, asks


def test_several_findings_of_one_case_and_taking_one_back(room):
    store, _ = room
    case = store.one("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT 1")["id"]
    point = decisions.add_finding(asks(store, case_id=case), "polyp", box=(10.25, 20, 10.25, 20))
    box = decisions.add_finding(asks(store, "ben", case_id=case), "artefact", box=(0, 0, 72, 60))
    whole = decisions.add_finding(asks(store, case_id=case), "lesion", mask_version=1)
    found = decisions.findings_of(asks(store, study=STUDY), case)
    assert [f["id"] for f in found] == [point, box, whole]
    assert [f["box"] for f in found] == [[10.25, 20, 10.25, 20], [0, 0, 72, 60], None]
    with pytest.raises(NotFound):
        decisions.case_of_finding(store, box, "ann")
    with pytest.raises(NotFound):
        decisions.remove_finding(asks(store, case_id=case), box)
    assert decisions.case_of_finding(store, point, "ann") == case
    decisions.remove_finding(asks(store, case_id=case), point)
    assert [f["label"] for f in decisions.findings_of(asks(store, study=STUDY), case)] == ["artefact", "lesion"]
    kinds = [r["kind"] for r in store.query("SELECT kind FROM events ORDER BY id DESC LIMIT 2")]
    assert kinds == ["finding-removed", "finding"] and audit.verify(store)["ok"]


@pytest.mark.parametrize("box", [(-1, 0, 5, 5), (5, 5, 4, 6), (0, 0, 73, 5), (0, 0, 5, 61)])
def test_a_place_outside_the_image_is_refused(room, box):
    store, _ = room
    case = store.one("SELECT id FROM cases LIMIT 1")["id"]
    with pytest.raises(ValueError, match="in the image"):
        decisions.add_finding(asks(store, case_id=case), "polyp", box=box)
    assert decisions.findings_of(asks(store, study=STUDY), case) == []
