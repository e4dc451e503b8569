"""What goes out is read back by independent readers: csv, Pillow, pycocotools, pydicom."""

import csv
import json

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from core.studio import studies
from core.studio.review import audit, decisions, masks
from core.studio.review.exports.dicom_seg import export_dicom_seg
from core.studio.review.exports.pictures import export_coco, export_png
from core.studio.review.exports.tables import export_csv


def test_csv_holds_what_counts_and_no_names(room, tmp_path):
    store, run = room
    a, b = store.query("SELECT * FROM cases WHERE split = 'test' ORDER BY id LIMIT 2")
    decisions.decide(store, a["id"], "Dr Ann", "normal", run=run)
    decisions.decide(store, a["id"], "Dr Ann", "abnormal", comment='=1+1, "so"\nit is', run=run, seconds=3)
    decisions.decide(store, b["id"], "Dr Ann", "unsure")
    export_csv(store, "room", tmp_path / "out.csv", "root", run=run)
    text = (tmp_path / "out.csv").read_text()
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    assert [r["decision"] for r in rows] == ["abnormal", "unsure"] and rows[0]["comment"] == '\'=1+1, "so"\nit is'
    reading = store.one("SELECT * FROM readings WHERE case_id = ?", [b["id"]])
    assert float(rows[1]["score"]) == reading["score_roi"]
    assert "Ann" not in text and a["name"].split(".")[0] not in text and rows[0]["reader"] == rows[1]["reader"]
    export_csv(store, "room", tmp_path / "named.csv", "root", keep_names=True)
    named = list(csv.DictReader((tmp_path / "named.csv").open(newline="")))
    assert named[0]["reader"] == "Dr Ann" and named[0]["case"] == a["name"].rsplit(".", 1)[0]
    assert rows[0]["created"] != named[0]["created"]
    assert [e["kind"] for e in audit.trail(store, limit=2)] == ["export", "export"]


@pytest.mark.parametrize("shape", [(288, 384), (1024, 1024), (2848, 4288)])
def test_a_mask_is_the_same_in_png_and_coco(bare, tmp_path, shape):
    from pycocotools.coco import COCO

    folder = tmp_path / "flat"
    folder.mkdir()
    Image.fromarray(np.full((*shape, 3), 90, np.uint8)).save(folder / "a.png", compress_level=1)
    study = studies.import_study(bare, "flat", folder).study
    bare.execute("UPDATE cases SET split = 'test'")
    case = bare.one("SELECT id FROM cases")["id"]
    rng = np.random.default_rng(0)
    mask = np.kron(rng.random((shape[0] // 8, shape[1] // 8)) > 0.7, np.ones((8, 8), bool)).astype(np.uint8)
    mask[0, 0] = mask[-1, -1] = mask[3, 5] = 1
    masks.save(bare, case, mask, "ann")
    export_png(bare, study, tmp_path / "png", "root")
    written = np.asarray(Image.open(next((tmp_path / "png").iterdir())))
    assert written.dtype == bool and np.array_equal(written, mask.astype(bool))
    export_coco(bare, study, tmp_path / "coco.json", "root")
    coco = COCO(str(tmp_path / "coco.json"))
    annotation = coco.loadAnns(coco.getAnnIds())[0]
    assert np.array_equal(coco.annToMask(annotation), mask) and annotation["area"] == mask.sum()


def ct(path, shape=(48, 40), name="Doe^Jane"):
    ds = pydicom.Dataset()
    ds.file_meta = pydicom.dataset.FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID = CTImageStorage
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID = generate_uid()
    ds.StudyInstanceUID, ds.SeriesInstanceUID, ds.FrameOfReferenceUID = (generate_uid() for _ in range(3))
    ds.PatientName, ds.PatientID, ds.Modality, ds.StudyDate = name, "12345", "CT", "20240131"
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
    masks.save(bare, case["id"], mask, "ann", note="polyp")
    found = export_dicom_seg(bare, study, tmp_path / "seg", "root")
    assert found["files"] == 1
    seg = pydicom.dcmread(next((tmp_path / "seg").iterdir()))
    assert seg.Modality == "SEG" and np.array_equal(np.squeeze(seg.pixel_array), mask)
    assert seg.SegmentSequence[0].SegmentLabel == "polyp"
    text = str(seg)
    for secret in ("Doe", "12345", "Who^", "20240131", "acc-1", source.SOPInstanceUID, source.StudyInstanceUID):
        assert secret not in text, secret
    export_dicom_seg(bare, study, tmp_path / "named", "root", keep_names=True)
    named = pydicom.dcmread(next((tmp_path / "named").iterdir()))
    assert named.PatientName == "Doe^Jane" and source.SOPInstanceUID in str(named)


def test_coco_names_nobody(room, tmp_path):
    store, _ = room
    export_coco(store, "room", tmp_path / "coco.json", "root")
    body = json.loads((tmp_path / "coco.json").read_text())
    assert len(body["images"]) == 12 and len(body["annotations"]) == 6
    names = {c["name"].rsplit(".", 1)[0] for c in store.query("SELECT name FROM cases")}
    assert not {i["file_name"].rsplit(".", 1)[0] for i in body["images"]} & names
