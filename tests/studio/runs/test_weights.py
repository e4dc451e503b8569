"""Weights that are not what was written are refused with a sentence, before anything is computed with them."""

from __future__ import annotations

import pytest

from core.engine.backbones.encoder import load_encoder
from core.engine.backbones.weights import BadWeights
from core.studio.db.seals import SUFFIX, Damaged
from core.studio.runs import pipeline, scoring, weights
from core.studio.runs import records as runs
from tests.conftest import scored_padim


def change(file, place: int = -100):
    data = bytearray(file.read_bytes())
    data[place] ^= 64
    file.write_bytes(data)


@pytest.fixture
def fitted(store, tiny_study):
    """(encoder run, its folder, fit run, its folder)"""
    encoder, fit = scored_padim(store, tiny_study)
    return encoder, runs.run_folder(store, encoder), fit, runs.run_folder(store, fit)


def test_a_detector_that_was_changed_or_cut_is_refused(store, fitted):
    _, _, fit, folder = fitted
    file = folder / "padim.safetensors"
    whole = file.read_bytes()
    change(file)
    with pytest.raises(Damaged, match=f"the detector {fit} is damaged .padim.safetensors"):
        scoring.score_run(store, fit, "cpu")
    file.write_bytes(whole[:500])
    with pytest.raises(Damaged, match="500 bytes"):
        scoring.load_detector(store, fit, "cpu")
    file.write_bytes(whole)
    assert scoring.load_detector(store, fit, "cpu") is not None


@pytest.mark.slow
def test_a_cut_detector_of_an_older_version_is_refused_too(store, fitted):
    _, _, fit, folder = fitted
    for seal in folder.rglob(f"*{SUFFIX}"):
        seal.unlink()
    assert scoring.load_detector(store, fit, "cpu") is not None
    file = folder / "padim.safetensors"
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(Damaged, match="repeat that run"):
        scoring.load_detector(store, fit, "cpu")


@pytest.mark.slow
def test_nothing_is_fitted_on_a_damaged_encoder(store, fitted):
    encoder, folder, *_ = fitted
    again = pipeline.create_fit(store, encoder, "padim", {"channels": 20})
    change(folder / "encoder.safetensors")
    with pytest.raises(Damaged, match=f"the encoder {encoder} is damaged"):
        pipeline.fit_run(store, again, "cpu")
    with pytest.raises(BadWeights, match="not what encoder.json says"):
        load_encoder(folder)


@pytest.mark.slow
def test_the_state_of_work_in_progress_is_not_sealed(store, fitted):
    folder = fitted[1]
    (folder / "checkpoint.json").write_text("{}")
    (folder / "checkpoint-00000001.safetensors").write_bytes(b"x")
    assert {f.name for f in weights.files(folder)} == {"encoder.safetensors", "encoder.json"}
