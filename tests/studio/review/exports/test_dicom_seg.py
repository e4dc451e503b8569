"""Segmentations are read back by pydicom: pixels, frames and labels, and no names."""

import csv

import numpy as np
import pydicom
import pytest
from pycocotools.coco import COCO
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from core.studio.bundle import export_bundle, import_bundle
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.ingest.decode import read_image
from core.studio.ingest.video import Sampling
from core.studio.review import cases
from core.studio.review.exports import dicom_seg
from core.studio.review.exports.dicom_seg import Source, export_dicom_seg
from core.studio.review.exports.pictures import export_coco
from core.studio.review.exports.tables import export_csv
from tests.conftest import write
from tests.studio.ingest.dicoms import write_dicom, write_volume
from tests.studio.ingest.recordings import number_in, write_video
from tests.studio.review.conftest import asks, decide, save_mask


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


def segment(header: pydicom.Dataset, mask: np.ndarray, frame: int = 0, label: str = "lesion") -> pydicom.Dataset:
    """A segmentation of one source image, or of one of its frames."""
    source = Source.of(header, frame)
    made = dicom_seg._segmentation(source, mask, label, "import", None, None, 1)
    return source.sealed(made, "2026-01-01T00:00:00.000Z")


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


def test_a_series_of_frames_keeps_each_frame_its_own(bare, tmp_path):
    """A recording of eight frames: masks and decisions go out with the frame that they were made on."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_video(folder / "exam.avi", 80, "MJPG")
    study = studies.import_study(bare, "exam", folder, sampling=Sampling(every=10)).study
    bare.execute("UPDATE cases SET split = 'test'")
    cases = {c["frame"]: c["id"] for c in bare.query("SELECT id, frame FROM cases")}
    drawn = {}
    for frame in (20, 50):
        drawn[cases[frame]] = np.zeros((96, 128), np.uint8)
        drawn[cases[frame]][frame : frame + 9, 40:60] = 1
        save_mask(bare, cases[frame], drawn[cases[frame]], "ann")
        decide(bare, cases[frame], "ann", "abnormal")
    export_coco(bare, study, tmp_path / "coco.json", "root")
    coco = COCO(str(tmp_path / "coco.json"))
    shown = {a["image_id"]: coco.annToMask(a) for a in coco.loadAnns(coco.getAnnIds())}
    assert shown.keys() == drawn.keys() and all(np.array_equal(shown[i], drawn[i]) for i in drawn)
    assert {i["id"]: i["frame"] - 1 for i in coco.imgs.values()} == {i: frame for frame, i in cases.items()}
    assert len({i["recording"] for i in coco.imgs.values()}) == 1
    export_csv(bare, study, tmp_path / "named.csv", "root", keep_names=True)
    rows = list(csv.DictReader((tmp_path / "named.csv").open(newline="")))
    assert [(r["case"], r["recording"], r["frame"]) for r in rows] == [
        ("exam #21", "exam", "21"),
        ("exam #51", "exam", "51"),
    ]
    export_bundle(bare, study, tmp_path / "exam.zip", "root")
    other = opening.open(str(tmp_path / "other"))
    import_bundle(other, tmp_path / "exam.zip", "root")
    for row in other.query("SELECT path, frame FROM cases"):
        assert (
            row["path"].startswith(str(tmp_path / "other"))
            and number_in(read_image(row["path"], row["frame"])) == row["frame"]
        )
    other.close()


def test_exports_keep_each_slice_its_own_and_name_no_series(store, tmp_path):
    written = write_volume(tmp_path / "in", 6, (0.8, 0.6, 0, 0, 0, -1), PatientName="Doe^Jane")
    study = studies.import_study(store, "ct", tmp_path / "in").study
    store.execute("UPDATE cases SET split = 'test'")
    ids = {k: store.one("SELECT id FROM cases WHERE path = ?", [str(p)])["id"] for k, p in written.items()}
    drawn = {}
    for k in (1, 4):
        drawn[k] = np.zeros((24, 32), np.uint8)
        drawn[k][k : k + 5, 3:9] = 1
        save_mask(store, ids[k], drawn[k], "ann")
        decide(store, ids[k], "ann", "abnormal")
    source = {k: pydicom.dcmread(p) for k, p in written.items()}
    secrets = [source[0].SeriesInstanceUID, source[0].StudyInstanceUID, source[0].FrameOfReferenceUID, "Doe"]
    secrets += [s.SOPInstanceUID for s in source.values()]

    export_coco(store, study, tmp_path / "coco.json", "root")
    export_csv(store, study, tmp_path / "out.csv", "root")
    export_dicom_seg(store, study, tmp_path / "seg", "root")
    written_out = (tmp_path / "coco.json").read_text() + (tmp_path / "out.csv").read_text()
    written_out += "".join(str(pydicom.dcmread(p)) for p in (tmp_path / "seg").iterdir())
    assert not [s for s in secrets if s in written_out]
    coco = COCO(str(tmp_path / "coco.json"))
    assert {i["id"]: i["frame"] for i in coco.imgs.values()} == {ids[k]: 6 - k for k in range(6)}
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    assert [r["frame"] for r in rows] == ["5", "2"]
    assert {i["recording"] for i in coco.imgs.values()} == {r["recording"] for r in rows} and rows[0]["recording"]
    of_patient = {pydicom.dcmread(p).PatientID for p in (tmp_path / "seg").iterdir()}
    assert len(of_patient) == 1 and of_patient != {"12345"}

    export_dicom_seg(store, study, tmp_path / "named", "root", keep_names=True)
    for k, mask in drawn.items():
        [file] = (tmp_path / "named").glob(f"seg-{ids[k]}-*.dcm")
        seg = pydicom.dcmread(file)
        assert np.array_equal(np.squeeze(seg.pixel_array), mask)
        [item] = seg.PerFrameFunctionalGroupsSequence
        [of] = item.DerivationImageSequence[0].SourceImageSequence
        assert of.ReferencedSOPInstanceUID == source[k].SOPInstanceUID and "ReferencedFrameNumber" not in of
        at = item.PlanePositionSequence[0].ImagePositionPatient
        assert np.allclose(at, source[k].ImagePositionPatient)
        [series] = seg.ReferencedSeriesSequence
        assert series.SeriesInstanceUID == source[k].SeriesInstanceUID
    export_csv(store, study, tmp_path / "named.csv", "root", keep_names=True)
    rows = list(csv.DictReader((tmp_path / "named.csv").open(newline="")))
    assert [(r["case"], r["recording"]) for r in rows] == [
        (f"{written[k].stem} #{6 - k}", source[0].SeriesInstanceUID) for k in (1, 4)
    ]

    export_bundle(store, study, tmp_path / "ct.zip", "root")
    other = opening.open(str(tmp_path / "other"))
    import_bundle(other, tmp_path / "ct.zip", "root")
    line = cases.timeline(asks(other, case_id=ids[0]))
    assert [f["id"] for f in line] == [ids[k] for k in range(6)]
    other.close()
