"""Segmentations are read back by pydicom: pixels, frames and labels, and no names."""

import numpy as np
import pydicom
import pytest
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from core.studio.ingest import studies
from core.studio.review.exports import dicom_seg
from core.studio.review.exports.dicom_seg import export_dicom_seg, segment
from tests.conftest import write
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


@pytest.mark.long
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("form", ["BINARY", "LABELMAP"])
def test_every_odd_header_of_the_shared_cases_leaves(cases, bare, tmp_path, keep, form):
    root, make = tmp_path / "in", cases("dicom_make")
    make.make(root / "train/normal/n.dcm", make.ramp(top=4000), **make.M12)
    cases("dicom_headers").headers(root / "test/abnormal")
    mask = np.zeros((64, 64), np.uint8)
    mask[20:40, 20:40] = mask[50:55, 50:55] = 255
    odd = sorted((root / "test/abnormal").iterdir())
    for file in odd:
        write(root / "test/mask" / f"{file.stem}.png", mask)
    study = studies.import_study(bare, "odd", root).study
    done = export_dicom_seg(bare, study, tmp_path / "out", "root", keep, form=form)
    assert done["left_out"] == [] and done["files"] == len(odd)
    for file in (tmp_path / "out").iterdir():
        seg = pydicom.dcmread(file)
        parts = seg.pixel_array
        assert seg.SegmentationType == form and len(seg.SegmentSequence) == 2 + (form == "LABELMAP")  # its background
        shown = parts if form == "LABELMAP" else parts[0] + 2 * parts[1]
        assert shown.shape == (64, 64) and np.bincount(shown.ravel()).tolist() == [64 * 64 - 425, 400, 25]


@pytest.mark.long
@pytest.mark.parametrize("keep", [True, False])
def test_every_odd_source_of_the_shared_cases_leaves(cases, bare, tmp_path, keep):
    module = cases("dicom_objects")
    for odd in module.SOURCES:
        module.CASES[f"source_{odd}"](tmp_path / odd)
        study = studies.import_study(bare, odd.replace("_", "-"), tmp_path / odd).study
        done = export_dicom_seg(bare, study, tmp_path / f"out-{odd}", "root", keep)
        assert (done["files"], done["left_out"]) == (2, []), odd


def test_one_bad_case_never_ends_an_export(cases, bare, tmp_path, monkeypatch):
    cases("dicom_objects").CASES["source_charset"](tmp_path / "in")
    study = studies.import_study(bare, "bad", tmp_path / "in").study
    (tmp_path / "in/test/abnormal/odd.dcm").unlink()
    done = export_dicom_seg(bare, study, tmp_path / "gone", "root", True)
    assert done["files"] == 1 and [row["case"] for row in done["left_out"]] == ["odd"]
    monkeypatch.setattr(dicom_seg, "_segmentation", lambda *_: 1 / 0)
    with pytest.raises(ValueError, match="its header has values|its file cannot be read"):
        export_dicom_seg(bare, study, tmp_path / "none", "root")
