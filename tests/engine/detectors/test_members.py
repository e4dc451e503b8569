"""What members never see: by images, and by whole patients where these are known."""

import numpy as np
import pytest

from core.engine.detectors.base import FitContext
from core.engine.detectors.members import leave_out, part_unseen, places_unseen


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


def test_regions_and_patients_go_with_their_images():
    images = np.arange(20, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8)
    roi, patients = images[..., 0], np.arange(20) // 2
    (seen, around), (unseen, inside) = part_unseen(images, FitContext(roi=roi, patients=patients), 0.2, 3)
    assert np.array_equal(seen[..., 0], around.roi) and np.array_equal(unseen[..., 0], inside)
    assert np.array_equal(around.patients, seen[:, 0, 0, 0] // 2)
    assert part_unseen(images, FitContext(), 0.2, 3)[1][1] is None
