"""The doctor reads images, prepared images, weights and the audit trail in full, and says what is wrong with them."""

from __future__ import annotations

import pytest

from core.studio.db import audit, opening
from core.studio.doctor.checks import examine
from core.studio.ingest.studies import load_arrays
from core.studio.runs import records as runs
from tests.conftest import picture, scored_padim, write


def found(store, check: str) -> list[tuple[str, str]]:
    return [(f["level"], f["text"]) for f in examine(store, "cpu") if f["check"] == check]


@pytest.fixture
def fit(store, tiny_study):
    return scored_padim(store, tiny_study)[1]


@pytest.mark.slow
def test_all_is_well(store, fit):
    for check in ("images", "caches", "runs"):
        assert [level for level, _ in found(store, check)] == ["ok"], check


@pytest.mark.slow
def test_a_damaged_cache_goes_and_is_made_again(store, fit, tiny_study):
    file = next(store.home.cache.glob("*/32-*/images.npy"))
    data = bytearray(file.read_bytes())
    data[5000] ^= 1
    file.write_bytes(data)
    ((level, text),) = found(store, "caches")
    assert level == "note" and "tiny at 32 pixels" in text and not file.exists()
    load_arrays(store, tiny_study, 32)
    assert found(store, "caches")[0][0] == "ok"


def test_a_damaged_detector_is_named(store, fit):
    file = runs.run_folder(store, fit) / "padim.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    ((level, text),) = found(store, "runs")
    assert level == "bad" and fit in text and "padim.safetensors" in text


def test_a_replaced_image_is_named(store, fit, tiny_folder):
    write(tiny_folder / "train/normal/n003.png", picture(999)[0])
    ((level, text),) = found(store, "images")
    assert level == "bad" and "1 of 36 files have changed since the import" in text and "n003.png" in text


def test_an_empty_database_beside_runs_is_not_well(store, fit):
    for file in store.home.path.glob("studio.sqlite*"):
        file.unlink()
    fresh = opening.open(store.home)
    ((level, text),) = found(fresh, "runs")
    assert level == "bad" and "lost or replaced" in text
    fresh.close()


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
