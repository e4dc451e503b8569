"""Calibration: percentiles and flags agree, and the promises hold in simulation."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.calibration.percentiles import Calibration

finite = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(finite, min_size=1, max_size=60), st.lists(finite, max_size=20), st.floats(0.5, 100))
def test_flagged_is_percentile_of_q_or_more(held, new, q):
    calibration = Calibration.of(np.array(held))
    scores = np.array(new + held)  # ties included
    on_paper = np.array([sum(h < s for h in held) for s in scores])
    np.testing.assert_allclose(calibration.percentile(scores), 100 * on_paper / len(held))
    enough = on_paper >= math.ceil(len(held) * q / 100 - 1e-9)
    assert np.array_equal(calibration.flagged(scores, q), enough)
    assert calibration.flagged(np.array(held), q).mean() <= 1 - q / 100 + 1e-9


def test_round_trip_through_json_without_maps():
    bare = Calibration.of(np.random.default_rng(0).random(3))
    assert Calibration.from_dict(json.loads(json.dumps(bare.to_dict()))) == bare


def test_colour_scale_is_one_for_all_images():
    draw = np.random.default_rng(0)
    maps = draw.random((40, 16, 16))
    pixels = Calibration.of(maps.max((1, 2)), maps).pixels
    assert pixels.lo == np.median(np.median(maps, (1, 2))) and pixels.lo < pixels.threshold <= pixels.hi
    assert np.median((maps > pixels.threshold).mean((1, 2))) == pytest.approx(0.01, abs=0.002)
    assert (maps.max((1, 2)) > pixels.hi).mean() <= 0.05  # full colour in at most one normal image of twenty
    assert pixels.hi == Calibration.of(maps.max((1, 2))).threshold(95)


def test_colour_scale_inside_a_region():
    maps = np.ones((3, 4, 4))
    maps[:, :, 2:] = 100
    roi = np.zeros((3, 8, 8), np.uint8)
    roi[:, :, :4] = 1
    assert Calibration.of(np.ones(3), maps, roi).pixels[:3] == (1, 1, 1)
    with pytest.raises(ValueError, match="region of interest"):
        Calibration.of(np.ones(3), maps, np.zeros_like(roi))


def test_images_that_are_odd_all_over_do_not_raise_the_threshold():
    draw = np.random.default_rng(0)
    maps = draw.random((40, 16, 16))
    plain = Calibration.of(np.ones(40), maps).pixels
    maps[:10] += 100
    assert Calibration.of(np.ones(40), maps).pixels.threshold < 1.01 * plain.threshold < np.quantile(maps, 0.75)


def test_a_patient_counts_once_however_many_images_there_are_of_one():
    """Against the rule written out: per image, then per patient, then over patients."""
    draw = np.random.default_rng(1)
    patients = np.array([7] * 30 + [1] * 3 + [4] * 2)
    maps = draw.random((35, 16, 16)) + 10.0 * (patients == 7)[:, None, None]
    each = {p: np.median([np.quantile(m, 0.99) for m in maps[patients == p]]) for p in (1, 4, 7)}
    found = Calibration.of(np.ones(35), maps, patients=patients).pixels
    assert found.threshold == np.median(list(each.values())) < 1.01
    assert Calibration.of(np.ones(35), maps).pixels.threshold > 10


def peak(tmp_path, count):
    """Bytes at the peak of a calibration by `count` maps that lie in a file."""
    maps = np.lib.format.open_memmap(tmp_path / f"{count}.npy", "w+", np.float32, (count, 64, 64))
    maps[:] = np.random.default_rng(0).random((count, 64, 64), np.float32)
    scores = np.arange(count, dtype=float)
    Calibration.of(scores, maps)  # what is imported on the way
    tracemalloc.start()
    Calibration.of(scores, maps)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.slow
def test_a_calibration_keeps_numbers_of_maps_not_maps(tmp_path):
    few, many = peak(tmp_path, 200), peak(tmp_path, 1000)
    assert many - few < 800 * 64 * 64 * 4 / 20


def test_mistakes_are_named():
    for bad in ([], [1.0, math.nan]):
        with pytest.raises(ValueError, match="held-out"):
            Calibration.of(np.array(bad))
    one = Calibration.of(np.array([1.0]))
    for q in (0, 101):
        with pytest.raises(ValueError):
            one.threshold(q)
