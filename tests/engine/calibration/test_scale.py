"""What members never see: by images, and by whole patients where these are known."""

import numpy as np
import pytest

from core.engine.calibration.scale import Scale, leave_out, places_unseen


@pytest.mark.parametrize("patients", [None, np.arange(40) // 4], ids=["images", "patients"])
@pytest.mark.parametrize("seed", range(5))
def test_each_image_is_on_one_side(patients, seed):
    kept, out = places_unseen(40, 0.15, seed, patients)
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
