"""The bench of how alike normal images are place by place."""

import cv2
import numpy as np
import pytest

from tests.benches import aligned
from tests.benches._objects import KINDS, objects


@pytest.mark.parametrize("kind", KINDS)
def test_a_defect_changes_an_object_where_its_mask_is_and_nowhere_else(kind):
    for seed in range(8):
        (image, mask), (plain, none) = (KINDS[kind](np.random.default_rng(seed), defect) for defect in (True, False))
        changed = (image != plain).any(2)
        assert mask.any() and not none.any() and set(np.unique(mask)) == {0, 1}
        assert changed[mask > 0].mean() > 0.2 and not changed[cv2.dilate(mask, np.ones((9, 9), np.uint8)) == 0].any()


def test_objects_are_drawn_by_the_generator_alone():
    images, masks = objects("board", 3, True, np.random.default_rng(4))
    again, _ = objects("board", 3, True, np.random.default_rng(4))
    assert images.shape == (3, 224, 224, 3) and images.dtype == np.uint8 and masks.any((1, 2)).all()
    assert np.array_equal(images, again) and not np.array_equal(images[0], images[1])


@pytest.mark.slow
def test_the_bench_tells_how_alike_drawn_objects_are_and_what_more_say_brings(monkeypatch):
    for name, small in {"NORMALS": 20, "TESTED": 4, "LEVELS": 4, "FACTORS": (1.0, 8.0)}.items():
        monkeypatch.setattr(aligned, name, small)
    [row] = aligned.aligned(quick=True, device="cpu", only=("legged",))["rows"]
    assert row["set"] == "legged, 0" and row["alignment"] > 0.7 and row["weight"] > 0.5
    assert row["pro"][1] > row["pro"][0] > 0.5 and len(row["dice"]) == len(row["pixel_auroc"]) == 2


@pytest.mark.slow
def test_the_blend_beside_its_head_is_measured_likewise(monkeypatch):
    for name, small in {"NORMALS": 20, "TESTED": 4, "LEVELS": 4, "FACTORS": (1.0, 4.0)}.items():
        monkeypatch.setattr(aligned, name, small)
    preset = aligned.BlendHead.preset().replace(**{"head.steps": 2})
    monkeypatch.setattr(aligned.BlendHead, "preset", classmethod(lambda kind, name="quick": preset))
    [row] = aligned.aligned_head(quick=True, device="cpu", only=("ring",))["rows"]
    assert row["alignment"] > 0.7 and row["weight"] == pytest.approx(1.6) and len(row["auroc"]) == 2
