"""Click-to-segment of a case of a study."""

from __future__ import annotations

import pytest

from core.engine.segment import lattice as lattices
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.review import masks as segments
from tests.studio.review.conftest import STUDY, add_readings, asks, draw_folder


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    base = tmp_path_factory.mktemp("segment")
    store = opening.open(str(base / "home"))
    studies.import_study(store, STUDY, draw_folder(base / "images", 4, 1, 2), copy=True)
    run = add_readings(store, STUDY, "padim")
    case = store.first("SELECT id FROM cases WHERE label = 'abnormal' ORDER BY id", [])["id"]
    yield store, run, asks(store, case_id=case).asked_case
    store.close()


def test_a_window_of_a_case_is_made_ready_once(room, monkeypatch):
    store, run, case = room
    made = []
    plain = lattices.lattice
    monkeypatch.setattr(lattices, "lattice", lambda *args: made.append(args[2:]) or plain(*args))
    segments._lattice.cache_clear()
    assert not segments.segment(store, case, run, []).any()
    found = segments.segment(store, case, run, [(36, 30, True)])
    assert found.shape == (60, 72) and found[30, 36]
    assert not segments.segment(store, case, run, [(36, 30, True), (2, 2, False)])[2, 2]
    assert made == [(None,)]
    inside = segments.segment(store, case, run, [(36, 30, True)], (20, 10, 200, 50))
    assert made[1:] == [((20, 10, 72, 50),)] and not inside[:, :20].any()
    segments.segment(store, case, "", [(36, 30, True)])
    assert len(made) == 2, "a run without an encoder of its own is as none"
