"""Weights that are not what was written are refused with a sentence, before anything is computed with them."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from core.engine.backbones.encoder import load_encoder
from core.engine.backbones.weights import BadWeights
from core.studio.db import journal
from core.studio.db.seals import SUFFIX, Damaged
from core.studio.runs import pipeline, scoring, weights
from core.studio.runs import records as runs
from tests.conftest import ARCH, scored_padim


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
    with pytest.raises(Damaged, match="repeat the run"):
        scoring.load_detector(store, fit, "cpu")


@pytest.mark.slow
def test_nothing_is_fitted_on_a_damaged_encoder(store, fitted):
    encoder, folder, *_ = fitted
    again = pipeline.create_fit(store, encoder, "padim", {"channels": 20})
    change(folder / "encoder.safetensors")
    with pytest.raises(Damaged, match=f"the encoder {encoder} is damaged"):
        pipeline.fit_run(store, again, "cpu")
    with pytest.raises(BadWeights, match="does not have the SHA-256 in encoder.json"):
        load_encoder(folder)


@pytest.mark.slow
def test_the_state_of_work_in_progress_is_not_sealed(store, fitted):
    folder = fitted[1]
    (folder / "checkpoint.json").write_text("{}")
    (folder / "checkpoint-00000001.safetensors").write_bytes(b"x")
    assert {f.name for f in weights.files(folder)} == {"encoder.safetensors", "encoder.json"}


SMALL = {
    "local_from": 32, "width": 4, "critic_width": 4, "latent": 8, "batch": 8, "max_steps": 1, "patches": 1,
}  # fmt: skip


def fitted_locally(store, encoder, **changes):
    fit = pipeline.create_fit(store, encoder, "igd", {**SMALL, **changes})
    pipeline.fit_run(store, fit, "cpu")
    return fit


def untrained(store, study, seed):
    run = pipeline.create_untrained(store, study, 64, seed, arch=ARCH)
    pipeline.pretrain_run(store, run)
    return run


@pytest.mark.slow
def test_a_run_gives_the_local_model_its_weights(store, tiny_study):
    one, other = (untrained(store, tiny_study, seed) for seed in (0, 5))
    fit = fitted_locally(store, one, local_encoder=other)
    parts = ((fit + "/local.encoder", other), (fit + "/whole.encoder", one))
    for place, run in parts:
        kept = load_file(store.home.runs / place / "encoder.safetensors")
        given = load_file(runs.run_folder(store, run) / "encoder.safetensors")
        assert all(torch.equal(value, given[name]) for name, value in kept.items())
    assert not any("global" in str(line) for line in journal.read_log(store, fit))

    with pytest.raises(ValueError, match="must be a finished pre-training run"):
        fitted_locally(store, one, local_encoder=fit)


def test_without_one_the_log_says_whose_weights_it_has(store, tiny_study):
    fit = fitted_locally(store, untrained(store, tiny_study, 0))
    assert any("took the global encoder's weights" in str(line) for line in journal.read_log(store, fit))
