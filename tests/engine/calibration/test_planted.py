"""Planted lesions: of the size and contrast that were asked for, and counted as a threshold flags them."""

import numpy as np
import pytest

from core.engine.calibration.planted import KINDS, planted, sensitivity


@pytest.fixture(scope="module")
def scene():
    rng = np.random.default_rng(0)
    return rng.integers(60, 200, (8, 48, 48, 3), np.uint8), np.ones((8, 48, 48), np.uint8)


def test_larger_lesions_change_more_and_the_same_seed_the_same(scene):
    small, large = (planted(*scene, size, 1.0, 0) for size in (0.1, 0.5))
    assert np.median(large[1]) > 3 * np.median(small[1]) > 0
    assert (planted(*scene, 0.1, 1.0, 0)[0] == small[0]).all() and len(KINDS) <= len(scene[0])
    outside = (large[0] != scene[0]).any(3)
    assert outside.any((1, 2)).all() and outside.mean() < 0.5


def test_what_is_flagged_is_counted_for_each_size_and_contrast(scene):
    def changed(images, roi):
        return np.abs(images.astype(int) - scene[0]).sum((1, 2, 3)).astype(float)

    rows = sensitivity(changed, *scene, threshold=0.5, sizes=(0.1, 0.4), contrasts=(1.0,))
    assert [(r.size, r.contrast, r.images) for r in rows] == [(0.1, 1.0, 8), (0.4, 1.0, 8)]
    assert rows[1].flagged == 8 >= rows[0].flagged > 0
    assert all(r.flagged == 0 for r in sensitivity(changed, *scene, threshold=np.inf, sizes=(0.4,)))
