"""What goes out is read back by independent readers: csv, Pillow, pycocotools, pydicom."""

import csv
import json

import cv2
import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from core.studio.db import audit
from core.studio.db import store as stores
from core.studio.ingest import burned_in, studies
from core.studio.ingest.decode import read_image
from core.studio.ingest.video import Sampling
from core.studio.review import decisions, findings, masks
from core.studio.review.bundle import export_bundle, import_bundle
from core.studio.review.exports.dicom_seg import export_dicom_seg, segment
from core.studio.review.exports.pictures import export_coco, export_png
from core.studio.review.exports.tables import export_csv
from tests.studio.ingest.dicoms import write_dicom
from tests.studio.ingest.recordings import number_in, write_video


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
    from pycocotools import mask as rle
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
    annotations = coco.loadAnns(coco.getAnnIds())
    # The union is the mask; as the areas add up to it, no pixel is in two of them.
    assert np.array_equal(rle.decode(rle.merge([a["segmentation"] for a in annotations])), mask)
    assert len(annotations) == cv2.connectedComponents(mask)[0] - 1 > 50
    assert sum(a["area"] for a in annotations) == mask.sum() and not any(a["iscrowd"] for a in annotations)
    whole = max(annotations, key=lambda a: a["area"])
    x, y, w, h = (int(v) for v in whole["bbox"])
    alone = coco.annToMask(whole)
    assert alone.sum() == whole["area"] == alone[y : y + h, x : x + w].sum()


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
    parts = seg.pixel_array
    assert seg.Modality == "SEG" and parts.shape == (2, 48, 40)
    assert np.array_equal(parts.max(0), mask) and parts.sum() == mask.sum() and parts[1].sum() == 1
    assert [s.SegmentLabel for s in seg.SegmentSequence] == ["polyp 1", "polyp 2"]
    assert [int(s.SegmentNumber) for s in seg.SegmentSequence] == [1, 2]
    text = str(seg)
    for secret in ("Doe", "12345", "Who^", "20240131", "acc-1", source.SOPInstanceUID, source.StudyInstanceUID):
        assert secret not in text, secret
    export_dicom_seg(bare, study, tmp_path / "named", "root", keep_names=True)
    named = pydicom.dcmread(next((tmp_path / "named").iterdir()))
    assert named.PatientName == "Doe^Jane" and source.SOPInstanceUID in str(named)


def test_objects_bear_the_label_of_their_finding(room, tmp_path):
    from pycocotools.coco import COCO

    store, _ = room
    one, two = [c["id"] for c in store.query("SELECT id FROM cases WHERE label = 'normal' AND split = 'test'")][:2]
    mask = np.zeros((60, 72), np.uint8)
    mask[5:10, 5:10] = mask[30:50, 71] = mask[40, 20:60] = 1  # one of them ends in the image's last column
    for case, label in ((one, "serrated"), (two, "")):
        saved = masks.save(store, case, mask, "ann")
        if label:
            findings.add(store, case, label, "ann", mask_version=saved["version"])
    masks.save(store, two, np.zeros((60, 72), np.uint8), "ann")  # an empty mask has no objects
    export_coco(store, "room", tmp_path / "coco.json", "root")
    coco = COCO(str(tmp_path / "coco.json"))
    found = coco.loadAnns(coco.getAnnIds(imgIds=[one]))
    assert sorted(a["area"] for a in found) == [20, 25, 40] and len({a["id"] for a in found}) == 3
    assert {coco.cats[a["category_id"]]["name"] for a in found} == {"serrated"}
    assert np.array_equal(sum(coco.annToMask(a) for a in found), mask)
    assert not coco.getAnnIds(imgIds=[two])
    other = coco.loadAnns(coco.getAnnIds(catIds=coco.getCatIds(catNms=["lesion"])))
    assert len(other) == 6  # the imported ones, which nobody has named


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


def test_a_series_of_frames_keeps_each_frame_its_own(bare, tmp_path):
    """A recording of eight frames: masks and decisions go out with the frame that they were made on."""
    from pycocotools.coco import COCO

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
        masks.save(bare, cases[frame], drawn[cases[frame]], "ann")
        decisions.decide(bare, cases[frame], "ann", "abnormal")
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
    other = stores.open(str(tmp_path / "other"))
    import_bundle(other, tmp_path / "exam.zip", "root")
    for row in other.query("SELECT path, frame FROM cases"):
        assert (
            row["path"].startswith(str(tmp_path / "other"))
            and number_in(read_image(row["path"], row["frame"])) == row["frame"]
        )
    other.close()


def test_burned_in_text_is_warned_of(bare, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    plain = np.full((300, 300, 3), 90, np.uint8)
    written = cv2.putText(plain.copy(), "DOE JANE 12/03/1964", (20, 40), 0, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    for name, image in (("plain.png", plain), ("written.png", written)):
        Image.fromarray(image).save(folder / name)
    write_dicom(folder / "says.dcm", np.full((64, 64), 500, np.uint16), BurnedInAnnotation="YES")
    write_dicom(folder / "silent.dcm", np.full((64, 64), 400, np.uint16))
    report = studies.import_study(bare, "in", folder)
    assert sorted(report.burned_in) == ["says.dcm", "written.png"]
    bare.execute("UPDATE cases SET split = 'test'")
    named = {c["id"]: c["name"] for c in bare.query("SELECT id, name FROM cases")}
    done = export_coco(bare, report.study, tmp_path / "coco.json", "root")
    assert sorted(named[i] for i in done["burned_in"]["cases"]) == ["says.dcm", "written.png"]
    marked = {i["id"] for i in json.loads((tmp_path / "coco.json").read_text())["images"] if i.get("burned_in_text")}
    assert marked == set(done["burned_in"]["cases"]) and audit.trail(bare, limit=1)[0]["after"]["burned_in"] == 2
    assert burned_in.warning(done["burned_in"]).startswith("2 cases may carry burned-in text")
    bare.execute("UPDATE cases SET burned_in = NULL WHERE name LIKE '%.png'")  # of an earlier version: looked at now
    assert burned_in.among(bare, report.study) == done["burned_in"]
    assert bare.one("SELECT count(*) AS n FROM cases WHERE burned_in IS NULL")["n"] == 0
    assert burned_in.warning({"cases": [], "unknown": 0}) is None


def test_coco_names_nobody(room, tmp_path):
    store, _ = room
    export_coco(store, "room", tmp_path / "coco.json", "root")
    body = json.loads((tmp_path / "coco.json").read_text())
    assert len(body["images"]) == 12 and len(body["annotations"]) == 6
    names = {c["name"].rsplit(".", 1)[0] for c in store.query("SELECT name FROM cases")}
    assert not {i["file_name"].rsplit(".", 1)[0] for i in body["images"]} & names
