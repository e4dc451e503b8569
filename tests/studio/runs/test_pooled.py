"""Images that a detector has read are not passed through the encoder again for neighbours and maps."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.backbones import embed
from core.engine.backbones.encoder import load_encoder
from core.studio.ingest.cache import load_arrays
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import explained, look, pooled
from core.studio.runs import records as runs
from tests.conftest import ARCH


@pytest.fixture
def passes(monkeypatch):
    """Counts the images that encoders pass, in a list of one number a batch."""
    counts, plain = [], embed.to_batch
    monkeypatch.setattr(embed, "to_batch", lambda x, device: counts.append(len(x)) or plain(x, device))
    return counts


@pytest.fixture
def encoder(store, tiny_study):
    """The run of an untrained encoder."""
    run = look.create_untrained(store, tiny_study, 32, init="random", arch=ARCH)
    load_step("pretrain")(Work(store, run, {"device": "cpu"}))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("detector", ["padim", "mahalanobis", "blend"])
def test_a_look_passes_each_image_once(store, tiny_study, encoder, passes, detector):
    fit = look.create_fit(store, encoder, detector)
    *steps, embedding = look.look_steps(store, {"encoder": encoder, "fit": fit}, evaluate=False, device="cpu")
    for step in steps:
        load_step(step["step"])(Work(store, step["run"], step["args"]))
    passes.clear()
    load_step("embed")(Work(store, encoder, embedding["args"]))
    explained.add_nearest(store, fit, "cpu")
    assert passes == [], "the map and the neighbours take what scoring kept"
    query = "SELECT json_extract(extra, '$.nearest') AS n FROM readings WHERE run = ?"
    assert all(row["n"] for row in store.query(query, [fit]))


@pytest.mark.slow
def test_kept_features_are_the_encoders_and_damage_costs_a_pass(store, tiny_study, encoder, passes):
    images = load_arrays(store, tiny_study, 32).images[:6]
    network = load_encoder(runs.run_folder(store, encoder))
    right = embed.encode(network, images, "backbone")
    file = store.home.cache / tiny_study / "pooled.npz"
    for damage, passed in ((b"", 0), (b"cut", 6), (file.read_bytes() if file.exists() else b"PK", 6)):
        with pooled.kept(store, tiny_study):
            embed.encode(network, images, "backbone")
        if damage:
            file.write_bytes(damage)
        passes.clear()
        with pooled.kept(store, tiny_study):
            found = embed.encode(network, images, "backbone")
        assert sum(passes) == passed
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_an_erasure_meanwhile_leaves_no_features(store, tiny_study, encoder, monkeypatch):
    images = load_arrays(store, tiny_study, 32).images[:2]
    counts = iter((0, 1))
    monkeypatch.setattr(pooled, "erasures", lambda store: next(counts))
    with pooled.kept(store, tiny_study):
        embed.encode(load_encoder(runs.run_folder(store, encoder)), images, "backbone")
    assert not (store.home.cache / tiny_study / "pooled.npz").exists()


def test_only_the_images_asked_for_are_kept_and_no_more_than_allowed():
    images = np.random.default_rng(0).integers(0, 255, (5, 32, 32, 3), np.uint8)
    network = embed.inference_copy(embed.Encoder().eval())
    features = embed.Features(2, {embed.digest(image) for image in images[1:]})
    with embed.caching_features(features):
        maps = embed.feature_maps(network, images, {8})
    assert set(maps) == {8} and set(features.rows(network)) == {embed.digest(image) for image in images[1:3]}


@pytest.mark.parametrize("size", [32, 96])
def test_images_are_passed_a_few_at_a_time_with_the_same_maps(size, monkeypatch, passes):
    images = np.random.default_rng(0).integers(0, 255, (5, size, size, 3), np.uint8)
    network = embed.inference_copy(embed.Encoder().eval())
    whole = embed.feature_maps(network, images, {4, 32})
    monkeypatch.setattr(embed, "PIECE", 2 * size**2)
    pieces = embed.feature_maps(network, images, {4, 32})
    assert passes == [5, 2, 2, 1]
    for stride in whole:
        assert float((whole[stride] - pieces[stride]).abs().max()) <= 1e-5 * float(whole[stride].abs().max())
