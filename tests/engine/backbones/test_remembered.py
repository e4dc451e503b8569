"""Maps kept between detectors: the same as computed, once each, within the memory given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import Memory, memory, remembering
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors import map_detector
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (24, 64, 64, 3), np.uint8)


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig()).eval()


@pytest.mark.slow
def test_detectors_say_the_same_and_the_encoder_sees_each_image_once(encoder, images, monkeypatch):
    seen = []
    plain = map_detector.to_batch
    monkeypatch.setattr(map_detector, "to_batch", lambda x, device: seen.append(len(x)) or plain(x, device))
    kinds = [(PaDiM, PaDiMConfig(strides=(8, 16), channels=10)), (Mahalanobis, MahalanobisConfig())]
    expected = [kind.fit(encoder, images[:20], config).predict(images) for kind, config in kinds]
    assert sum(seen) == 2 * (20 + 24)
    seen.clear()
    with remembering():
        found = [kind.fit(encoder, images[:20], config).predict(images) for kind, config in kinds]
    assert sum(seen) == 24 and memory() is None
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a.maps, b.maps, rtol=1e-3, atol=1e-4)


def test_another_encoder_is_not_taken_for_this_one(encoder, images):
    other = build_encoder(EncoderConfig(seed=1)).eval()
    with remembering(), torch.inference_mode():
        a, b = (map_detector.maps_of(e, images[:2], {16})[16] for e in (encoder, other))
    assert not torch.allclose(a, b)


def test_a_block_inside_another_keeps_nothing_of_its_own_and_another_thread_is_not_in_it():
    with remembering() as outer:
        with remembering() as inner:
            assert inner is outer is memory()
        assert memory() is outer
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(memory).result() is None
    assert memory() is None


def test_what_was_used_longest_ago_is_forgotten(encoder, images):
    calls = []

    def compute(rows, strides):
        calls.append(len(rows))
        return {s: torch.zeros(len(rows), 1, 4, 4) for s in strides}

    kept = Memory(limit=3 * 4 * 64)  # three images of four maps of 64 bytes
    for rows in (images[:3], images[3:4], images[1:4], images[:1]):
        kept.maps(encoder, rows, {8}, compute)
    assert calls == [3, 1, 1] and kept.held <= kept.limit and len(kept.kept) == 3


def test_finer_maps_than_are_kept_are_computed(encoder, images):
    with remembering() as kept, torch.inference_mode():
        found = map_detector.maps_of(encoder, images[:2], {2})
    assert set(found) == {2} and not kept.kept
