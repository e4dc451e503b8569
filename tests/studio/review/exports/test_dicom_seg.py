"""Segmentations are read back by pydicom: pixels, frames and labels, and no names."""

import numpy as np
import pydicom
import pytest
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from core.studio.ingest import studies
from core.studio.review.exports.dicom_seg import export_dicom_seg, segment
from tests.studio.ingest.dicoms import write_dicom
from tests.studio.review.conftest import save_mask


def ct(path, shape=(48, 40), name="Doe^Jane"):
    ds = pydicom.Dataset()
    ds.file_meta = pydicom.dataset.FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID = CTImageStorage
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID = generate_uid()
    ds.StudyInstanceUID, ds.SeriesInstanceUID, ds.FrameOfReferenceUID = (generate_uid() for _ in range(3))
    ds.PatientName, ds.PatientID, ds.Modality, ds.StudyDate = name, "MRN7", "CT", "20240131"
    ds.PatientBirthDate, ds.PatientSex, ds.StudyTime, ds.StudyID, ds.AccessionNumber = (
        "19700101",
        "F",
        "101500",
        "7",
        "acc-1",
    )
    ds.ReferringPhysicianName = "Who^Doctor"
    ds.Rows, ds.Columns = shape
    ds.SamplesPerPixel, ds.PhotometricInterpretation, ds.PixelRepresentation = 1, "MONOCHROME2", 1
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = 16, 16, 15
    ds.RescaleIntercept, ds.RescaleSlope = "-1024", "1"
    ds.ImagePositionPatient, ds.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
    ds.PixelSpacing, ds.SliceThickness, ds.InstanceNumber = [0.7, 0.7], "1.0", 1
    rng = np.random.default_rng(0)
    ds.PixelData = rng.integers(0, 2000, shape).astype("<i2").tobytes()
    ds.save_as(path, enforce_file_format=True)
    return ds


def test_dicom_seg_read_by_pydicom_gives_the_mask_and_no_names(bare, tmp_path):
    folder = tmp_path / "ct"
    folder.mkdir()
    source = ct(folder / "slice.dcm")
    study = studies.import_study(bare, "ct", folder).study
    case = bare.one("SELECT * FROM cases")
    mask = np.zeros((48, 40), np.uint8)
    mask[10:20, 5:31] = 1
    mask[47, 39] = 1
    save_mask(bare, case["id"], mask, "ann", note="polyp")
    found = export_dicom_seg(bare, study, tmp_path / "seg", "root")
    assert found["files"] == 1
    seg = pydicom.dcmread(next((tmp_path / "seg").iterdir()))
    parts = seg.pixel_array
    assert seg.Modality == "SEG" and parts.shape == (2, 48, 40)
    assert np.array_equal(parts.max(0), mask) and parts.sum() == mask.sum() and parts[1].sum() == 1
    assert [s.SegmentLabel for s in seg.SegmentSequence] == ["polyp 1", "polyp 2"]
    assert [int(s.SegmentNumber) for s in seg.SegmentSequence] == [1, 2]
    text = str(seg)
    for secret in ("Doe", "MRN7", "Who^", "20240131", "acc-1", source.SOPInstanceUID, source.StudyInstanceUID):
        assert secret not in text, secret
    export_dicom_seg(bare, study, tmp_path / "named", "root", keep_names=True)
    named = pydicom.dcmread(next((tmp_path / "named").iterdir()))
    assert named.PatientName == "Doe^Jane" and source.SOPInstanceUID in str(named)


def test_very_many_specks_are_one_segment(tmp_path):
    mask = np.zeros((48, 40), np.uint8)
    mask[::2, ::2] = 1
    seg = segment(ct(tmp_path / "a.dcm"), mask, label="dust")
    assert [s.SegmentLabel for s in seg.SegmentSequence] == ["dust"] and np.array_equal(
        np.squeeze(seg.pixel_array), mask
    )


RECORDED = {"CT": "1.2.840.10008.5.1.4.1.1.2", "ultrasound": "1.2.840.10008.5.1.4.1.1.3.1"}
RECORDED["endoscopy"] = "1.2.840.10008.5.1.4.1.1.77.1.1.1"
PLACE = ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "SliceThickness", "FrameOfReferenceUID")


@pytest.mark.parametrize("kind", RECORDED)
@pytest.mark.parametrize("placed", [True, False])
def test_dicom_seg_of_a_recording_names_its_frame(tmp_path, kind, placed):
    source = ct(tmp_path / "a.dcm")
    source.SOPClassUID = RECORDED[kind]
    source.NumberOfFrames, source.PixelData = 3, source.PixelData * 3
    for keyword in () if placed else PLACE:
        delattr(source, keyword)
    mask = np.zeros((48, 40), np.uint8)
    mask[3:6, 3:6] = mask[20:22, 8] = 1
    segment(source, mask, 1, "polyp").save_as(tmp_path / "seg.dcm")
    seg = pydicom.dcmread(tmp_path / "seg.dcm")
    assert seg.pixel_array.shape == (2, 48, 40) and np.array_equal(seg.pixel_array.max(0), mask)
    for item in seg.PerFrameFunctionalGroupsSequence:
        [of] = item.DerivationImageSequence[0].SourceImageSequence
        assert int(of.ReferencedFrameNumber) == 2 and of.ReferencedSOPInstanceUID == source.SOPInstanceUID
        assert of.ReferencedSOPClassUID == RECORDED[kind]


def test_dicom_seg_of_an_image_without_a_place_in_space(tmp_path):
    source = pydicom.dcmread(write_dicom(tmp_path / "a.dcm", np.zeros((48, 40, 3), np.uint8), PatientName="No^Body"))
    mask = np.zeros((48, 40), np.uint8)
    mask[1:4, 2:9] = 1
    seg = segment(source, mask)
    assert np.array_equal(np.squeeze(seg.pixel_array), mask) and seg.SegmentSequence[0].SegmentLabel == "lesion"
