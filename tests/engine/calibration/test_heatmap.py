"""Heat maps: up, blurred, to 16 bits and back; which images are held out for the scale of scores."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from core.engine.calibration.heatmap import blur, counting, covered, inside_of, roi_at
from core.engine.calibration.quantise import dequantise, quantise
from core.engine.calibration.scale import Scale, leave_out, split_unseen


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-1e4, 1e4), st.floats(1e-3, 1e4))
def test_sixteen_bits_and_back(seed, offset, scale):
    heat = (np.random.default_rng(seed).standard_normal((5, 7)) * scale + offset).astype(np.float32)
    codes, lo, hi = quantise(heat)
    assert codes.dtype == np.uint16 and codes.min() == 0 and codes.max() == 65535
    back = dequantise(codes, lo, hi)
    rounding = np.spacing(np.float32(max(abs(lo), abs(hi))))
    assert np.abs(back - heat).max() <= (hi - lo) / 131070 + rounding
    assert back.dtype == np.float32 and back.argmax() == heat.argmax()


def test_a_flat_map_and_one_that_cannot_be_kept():
    codes, lo, hi = quantise(np.full((3, 3), 2.5))
    assert np.array_equal(dequantise(codes, lo, hi), np.full((3, 3), 2.5, np.float32))
    for bad in (np.array([[np.nan]]), np.array([[np.inf]]), np.zeros((0, 3))):
        with pytest.raises(ValueError, match="finite"):
            quantise(bad)


@pytest.mark.parametrize("sigma", [0.25, 1.0, 3.0])
def test_blur_against_scipy(sigma):
    x = np.random.default_rng(0).random((2, 9, 16)).astype(np.float32)  # narrower than the widest kernel
    expected = np.stack([gaussian_filter(m.astype(np.float64), sigma, mode="reflect", truncate=4.0) for m in x])
    np.testing.assert_allclose(blur(torch.from_numpy(x), sigma).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [16, 20, 36])
def test_regions_on_a_grid_are_torchs_area_interpolation(size):
    roi = torch.rand(3, size, size, generator=torch.Generator().manual_seed(0)) > 0.5
    roi[0] = False
    for shape in ((8, 8), (5, 7), (24, 24)):
        expected = torch.nn.functional.interpolate(roi[:, None].float(), shape, mode="area")[:, 0]
        torch.testing.assert_close(covered(roi, shape), expected)
        assert torch.equal(inside_of(roi, shape), expected >= 0.5)
        assert np.array_equal(roi_at(roi.numpy(), shape), expected.numpy() >= 0.5)
        counts = counting(torch.zeros(3, *shape), roi)
        assert counts[0].all() and torch.equal(counts[1:], inside_of(roi, shape)[1:]), "all of an empty region"


@pytest.mark.parametrize("patients", [None, np.arange(40) // 4], ids=["images", "patients"])
@pytest.mark.parametrize("seed", range(5))
def test_each_image_is_on_one_side(patients, seed):
    kept, out = split_unseen(40, 0.15, seed, patients)
    assert sorted([*kept, *out]) == list(range(40)) and len(out) >= 6
    if patients is not None:
        assert not set(patients[kept]) & set(patients[out]) and len(out) == 8


def test_a_patient_with_most_images_is_parted_rather_than_left_out():
    patients = np.array([0] * 30 + [1, 2])
    for seed in range(10):
        kept, out = leave_out(32, 5, seed, patients)
        assert len(kept) >= 16 and len(out) == 5


def test_nothing_is_left_out_where_nothing_is_asked_for():
    kept, out = leave_out(9, 0, 0, np.arange(9))
    assert len(out) == 0 and list(kept) == list(range(9))


def test_a_scale_gives_mean_0_and_deviation_1():
    values = np.random.default_rng(0).normal(5, 3, (40, 7))
    scaled = Scale.of(values)(values)
    assert abs(scaled.mean()) < 1e-9 and scaled.std() == pytest.approx(1)
    assert np.isfinite(Scale.of(np.ones(5))(np.ones(5))).all(), "what never varies is not divided by 0"
