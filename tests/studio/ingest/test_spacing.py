"""Pixel sizes as DICOM files give them."""

import numpy as np
import pytest
from pydicom.dataset import Dataset

from core.studio.ingest import spacing
from tests.conftest import picture, write
from tests.studio.ingest.dicoms import write_dicom

PIXELS = np.zeros((8, 9), np.uint16)


def shared(values):
    """The functional groups of a multi-frame file whose frames share one spacing."""
    measures, groups = Dataset(), Dataset()
    measures.PixelSpacing = values
    groups.PixelMeasuresSequence = [measures]
    return [groups]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"PixelSpacing": [0.5, 0.25]}, {"x": 0.25, "y": 0.5, "at": "patient"}),
        ({"ImagerPixelSpacing": [0.2, 0.2]}, {"x": 0.2, "y": 0.2, "at": "detector"}),
        ({"PixelSpacing": [1, 2], "ImagerPixelSpacing": [3, 3]}, {"x": 2, "y": 1, "at": "patient"}),
        ({"SharedFunctionalGroupsSequence": shared([0.7, 0.7])}, {"x": 0.7, "y": 0.7, "at": "patient"}),
        ({"PixelSpacing": [0, 0]}, None),
        ({}, None),
    ],
)
def test_a_dicoms_spacing(tmp_path, extra, expected):
    path = write_dicom(tmp_path / "a.dcm", PIXELS, **extra)
    assert spacing.of_case({"path": str(path), "sha256": None}) == expected


def test_other_files_and_files_that_are_gone_have_none(tmp_path):
    path = write(tmp_path / "a.png", picture(0)[0])
    for one in (path, tmp_path / "gone.dcm"):
        assert spacing.of_case({"path": str(one), "sha256": None}) is None
