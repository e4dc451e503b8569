"""Prepared images that were damaged are made again; an image that was replaced is named."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.files import MAKING
from core.studio.db import seals
from core.studio.ingest import cache
from core.studio.ingest.originals import Replaced, check, image_of
from core.studio.ingest.studies import load_arrays
from core.studio.runs import scoring
from tests.conftest import picture, scored_padim, write


def prepared(store, name: str):
    return next(store.home.cache.glob(f"*/32-*/{name}"))


def content(store, study: str) -> list[bytes]:
    arrays = load_arrays(store, study, 32)
    return [np.array(a).tobytes() for a in (arrays.images, arrays.roi, arrays.masks)]


@pytest.mark.parametrize("name", ["images.npy", "roi.npy", "masks-*.npy"])
@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "unsealed"])
def test_damaged_arrays_are_made_again(store, tiny_study, name, damage):
    whole = content(store, tiny_study)
    file = prepared(store, name)
    if damage == "changed":
        data = bytearray(file.read_bytes())
        data[-400:] = bytes(b ^ 255 for b in data[-400:])
        file.write_bytes(data)
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif damage == "gone":
        file.unlink()
    else:
        seals.seal_of(file).unlink()
    assert content(store, tiny_study) == whole
    assert cache.is_sound(prepared(store, "images.npy").parent, full=True)
    assert not list(store.home.cache.rglob(f"{MAKING}*"))


@pytest.mark.slow
def test_scores_do_not_come_from_damaged_arrays(store, tiny_study):
    _, fit = scored_padim(store, tiny_study)
    query = "SELECT case_id, score, flagged FROM readings WHERE run = ? ORDER BY case_id"
    before = store.query(query, [fit])
    file = prepared(store, "images.npy")
    data = bytearray(file.read_bytes())
    data[2000:60_000] = bytes(58_000)
    file.write_bytes(data)
    scoring.score_run(store, fit, "cpu")
    assert store.query(query, [fit]) == before


def test_a_replaced_image_is_named(store, tiny_study, tiny_folder):
    case = store.one("SELECT * FROM cases WHERE study = ? LIMIT 1", [tiny_study])
    assert image_of(case).shape == (48, 64, 3)
    write(tiny_folder / "train/normal" / case["name"], picture(999)[0])
    with pytest.raises(Replaced, match="another file"):
        image_of(case)
    with pytest.raises(ValueError, match="another file has taken its place"):
        load_arrays(store, tiny_study, 32)
    check(case["path"], None)  # a case without a hash is not checked
