"""The bench runs and reports what it says it does."""

from __future__ import annotations

import pytest
import torch

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS
from tests.benches import augment


def test_both_pipelines_make_the_same_kind_of_batches():
    images = augment.smooth_images(6, 48)
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    pictures = [augment.Image.fromarray(i) for i in images]
    medmix, weak = MEDMIX_PRESETS["paper"], WEAK_PRESETS["gentle"]
    ours = augment.batched(x, medmix, weak, seed=0, batch=4)
    theirs = augment.one_by_one(pictures, medmix, weak, seed=0, batch=4)
    assert [v.shape for v in ours] == [v.shape for v in theirs] == [(4, 3, 48, 48)] * 2 + [(2, 3, 48, 48)] * 2
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == torch.float32
        assert abs(float(a.mean() - b.mean())) < 0.1 and abs(float(a.std() - b.std())) < 0.1


@pytest.mark.slow
def test_the_report():
    report = augment.augment(quick=True)
    assert report["ratio"] == report["baseline_seconds"] / report["seconds"] > 0
    assert report["images"] == 32 and report["side"] == 256
