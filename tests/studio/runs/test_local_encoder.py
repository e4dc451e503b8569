"""IGD's local encoder by the id of its run, as `fit --set local_encoder=RUN` gives it."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from core.studio.db import journal
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.conftest import ARCH

SMALL = {
    "local_from": 32, "width": 4, "critic_width": 4, "latent": 8, "batch": 8, "max_steps": 1, "patches": 1,
}  # fmt: skip


def fitted(store, encoder, **changes):
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
    fit = fitted(store, one, local_encoder=other)
    parts = ((fit + "/local.encoder", other), (fit + "/whole.encoder", one))
    for place, run in parts:
        kept = load_file(store.home.runs / place / "encoder.safetensors")
        given = load_file(runs.run_folder(store, run) / "encoder.safetensors")
        assert all(torch.equal(value, given[name]) for name, value in kept.items())
    assert not any("global" in str(line) for line in journal.read_log(store, fit))

    with pytest.raises(ValueError, match="takes a trained encoder's run"):
        fitted(store, one, local_encoder=fit)


def test_without_one_the_log_says_whose_weights_it_has(store, tiny_study):
    fit = fitted(store, untrained(store, tiny_study, 0))
    assert any("took the global encoder's weights" in str(line) for line in journal.read_log(store, fit))
