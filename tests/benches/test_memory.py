"""The bench of the default detector's memory: its images are read by row, and each stage is looked at."""

import numpy as np
import pytest

from tests.benches import fitting


def test_images_that_repeat_are_read_like_an_array():
    drawn = np.arange(6, dtype=np.uint8).reshape(3, 2)
    images = fitting.Repeated(drawn, 8)
    whole = np.concatenate([drawn, drawn, drawn])[:8]
    assert len(images) == 8 and images.shape == whole.shape and images.dtype == whole.dtype
    for index in (slice(2, 7), np.array([7, 0, 4]), 5, slice(6, 99)):
        assert np.array_equal(images[index], whole[index])


@pytest.mark.longest
def test_each_stage_has_its_peak():
    found = fitting.memory(quick=True)
    assert list(found["peak_mib"]) == ["32", "64"]
    for row in found["peak_mib"].values():
        assert 0 < row["fit"] <= row["score"]
    assert found["ratio"] == found["peak_mib"]["64"]["score"] / found["peak_mib"]["32"]["score"]
    assert all(row["fit"] > 0 and row["score"] > 0 for row in found["fit_and_score_seconds"].values())
