"""The bench of a threshold's promise, on scores whose coverage is known."""

import numpy as np
import pytest

from core.studio.benches import promise


def test_exchangeable_scores_break_the_promise_as_often_as_is_expected():
    rng = np.random.default_rng(0)
    drawn = [promise.promised(rng.normal(size=200), rng.normal(2, 1, 50), 20)[1] for _ in range(60)]
    assert {row["alpha"] for row in drawn} == {0.1} and all(row["possible"] for row in drawn)
    assert np.mean([row["broken"] for row in drawn]) == pytest.approx(drawn[0]["expected"], abs=0.04)
    assert 0 < np.mean([row["flagged"] for row in drawn]) < 0.1
    assert np.mean([row["found"] for row in drawn]) > 0.5


def test_too_few_held_out_images_promise_nothing():
    row = promise.promised(np.arange(60.0), np.arange(99.0), 5)[0]
    assert (row["held"], row["possible"], row["flagged"], row["found"], row["expected"]) == (30, False, 0, 0, None)
