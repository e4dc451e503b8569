"""Recordings and volumes: masks and decisions go out with the frame or slice that they were made on."""

import csv

import numpy as np
import pydicom
from pycocotools.coco import COCO

from core.studio.bundle import export_bundle, import_bundle
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.ingest.decode import read_image
from core.studio.ingest.video import Sampling
from core.studio.review import cases
from core.studio.review.exports.dicom_seg import export_dicom_seg
from core.studio.review.exports.pictures import export_coco
from core.studio.review.exports.tables import export_csv
from tests.studio.ingest.dicoms import write_volume
from tests.studio.ingest.recordings import number_in, write_video
from tests.studio.review.conftest import asks, decide, save_mask


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
