"""Quantiles by counting are NumPy's to the last bit, and take the same memory for any number of values."""

import tracemalloc

import numpy as np
import pytest

from core.engine.detectors.calibration import Calibration
from core.engine.metrics.quantiles import quantiles

SHARES = [0.0, 0.01, 0.5, 0.95, 0.99, 1.0]


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_they_are_those_of_all_values_together(count):
    draw = np.random.default_rng(count)
    for values in (draw.normal(0, 3, count), draw.integers(-3, 4, count), np.full(count, -0.0), draw.lognormal(0, 20)):
        values = np.atleast_1d(np.asarray(values, np.float32))
        parts = np.array_split(values, 3)
        expected = np.quantile(values.astype(np.float64), SHARES)
        np.testing.assert_allclose(quantiles(lambda p=parts: p, SHARES), expected, rtol=1e-12)


def test_no_value_has_no_quantile():
    with pytest.raises(ValueError, match="no values"):
        quantiles(lambda: [], [0.5])


def peak(tmp_path, count):
    """Bytes at the peak of a calibration by `count` maps that lie in a file."""
    maps = np.lib.format.open_memmap(tmp_path / f"{count}.npy", "w+", np.float32, (count, 64, 64))
    maps[:] = np.random.default_rng(0).random((count, 64, 64), np.float32)
    scores = np.arange(count, dtype=float)
    Calibration.of(scores, maps)  # what is imported on the way
    tracemalloc.start()
    found = Calibration.of(scores, maps).pixels
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.threshold == pytest.approx(np.quantile(maps.astype(np.float64), 0.99), rel=1e-12)
    return most


def test_a_calibration_takes_the_same_memory_for_more_maps(tmp_path):
    few, many = peak(tmp_path, 200), peak(tmp_path, 1000)
    assert many < 1.1 * few and many < 1000 * 64 * 64 * 4 / 2
