"""The short form of the bench of large studies: that each stage is measured, on files that are links."""

import os

import cv2
import pytest

from tests.benches import scale
from tests.benches.scale import STAGES
from tests.tools.drawing import FOLDERS, MASKS


@pytest.mark.longest
def test_each_stage_is_measured_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(scale, "STAGES", {name: STAGES[name] for name in ("import", "prepare")})
    found = scale.scale(only=("30", "60"), quick=True)
    assert set(found["studies"]) == {"30", "60"} and found["ratio"] > 0
    for stages in (study["stages"] for study in found["studies"].values()):
        assert all(stage["seconds"] >= 0 and stage["peak_mib"] > 50 for stage in stages.values())


def test_images_beyond_the_drawn_ones_are_links_with_masks(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "DRAWN", {"train": 3, "test_normal": 2, "test_abnormal": 2})
    scale.draw_files(tmp_path, 20)
    count = {part: len(os.listdir(tmp_path / folder)) for part, folder in FOLDERS.items()}
    assert count == {"train": 12, "test_normal": 4, "test_abnormal": 4}
    abnormal = sorted(p.name for p in (tmp_path / FOLDERS["test_abnormal"]).iterdir())
    assert abnormal == sorted(p.name for p in (tmp_path / MASKS).iterdir())
    for name in abnormal:
        image, mask = (cv2.imread(str(tmp_path / folder / name)) for folder in (FOLDERS["test_abnormal"], MASKS))
        assert image.shape == mask.shape == (64, 64, 3) and mask.any()
