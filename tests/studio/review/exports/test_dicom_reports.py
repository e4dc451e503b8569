"""Parametric maps and measurement reports are read back by pydicom and judged by dciodvfy: values, who, which model."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pydicom
import pytest

from core.studio.ingest import studies
from core.studio.review import decisions
from core.studio.review.exports.dicom_reports import export_dicom_map, export_dicom_sr
from core.studio.review.exports.dicom_seg import Algorithm, Source, export_dicom_seg, uid_of
from core.studio.runs.readings import read_maps
from tests.studio.review.conftest import add_readings, asks, decide, save_mask
from tests.studio.review.exports.test_dicom_seg import ct, segment

EXPORTS = {"seg": export_dicom_seg, "map": export_dicom_map, "sr": export_dicom_sr}


def errors_of(file: Path) -> list[str]:
    """What dciodvfy (Debian's dicom3tools) finds wrong with a file."""
    done = subprocess.run(["dciodvfy", str(file)], capture_output=True, text=True, timeout=60)
    return [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("Error")]


@pytest.fixture
def scored(bare, tmp_path):
    """(store, study, case, run): one CT slice with a mask, a decision, two findings and a score."""
    folder = tmp_path / "ct"
    folder.mkdir()
    ct(folder / "slice.dcm")
    study = studies.import_study(bare, "ct", folder).study
    bare.execute("UPDATE cases SET split = 'test'")
    case, run = bare.one("SELECT id FROM cases")["id"], add_readings(bare, study, "padim")
    mask = np.zeros((48, 40), np.uint8)
    mask[10:20, 5:31] = 1
    save_mask(bare, case, mask, "ann", run, source="run", threshold=0.4)
    decide(bare, case, "ann", "abnormal", run=run, comment="odd here")
    decide(bare, case, "ben", "normal")
    decisions.add_finding(asks(bare, "ann", case_id=case), "polyp", "", 1, (5, 10, 31, 20))
    decisions.add_finding(asks(bare, "ann", case_id=case), "artefact", "", None, (5, 10, 5, 10))
    return bare, study, case, run


def written(folder: Path) -> dict[str, pydicom.Dataset]:
    return {file.name: pydicom.dcmread(file) for file in sorted(folder.iterdir())}


def items(item: pydicom.Dataset):
    """Every content item of a report."""
    for inner in item.get("ContentSequence", ()):
        yield inner
        yield from items(inner)


def of_report(report: pydicom.Dataset) -> dict[str, list]:
    """Meaning of a concept -> what the report says under it."""
    found: dict[str, list] = {}
    for item in items(report):
        value = item.get("TextValue") or item.get("PersonName")
        if item.ValueType == "NUM":
            value = float(item.MeasuredValueSequence[0].NumericValue)
        elif item.ValueType == "CODE":
            value = item.ConceptCodeSequence[0].CodeMeaning
        elif item.ValueType == "SCOORD":
            value = [float(v) for v in item.GraphicData]
        name = item.get("ConceptNameCodeSequence")
        found.setdefault(name[0].CodeMeaning if name else item.ValueType, []).append(value)
    return found


def test_a_map_has_the_values_of_the_run_and_names_its_model(scored, tmp_path):
    store, study, case, run = scored
    assert export_dicom_map(store, study, tmp_path / "map", "root")["files"] == 1
    [made] = written(tmp_path / "map").values()
    mapping = made.SharedFunctionalGroupsSequence[0].RealWorldValueMappingSequence[0]
    values = made.pixel_array * mapping.RealWorldValueSlope + mapping.RealWorldValueIntercept
    heat = read_maps(store, run, np.array([case]))[0]
    assert values.shape == (48, 40) and heat.min() - 1e-4 < values.min() and values.max() < heat.max() + 1e-4
    assert abs(values.mean() - heat.mean()) < 0.01
    assert made.DeviceSerialNumber == "none" and run in made.ImageComments and made.SoftwareVersions
    assert made.ContentCreatorName == "algorithm^" and "PaDiM" in made.ManufacturerModelName


def test_a_report_for_each_reader_and_for_the_algorithm(scored, tmp_path):
    store, study, case, run = scored
    assert export_dicom_sr(store, study, tmp_path / "sr", "root", keep_names=True)["files"] == 3
    said = {}
    for report in map(of_report, written(tmp_path / "sr").values()):
        said[str(report.get("Person Observer Name", ["algorithm"])[0]).rstrip("^")] = report
    assert sorted(said) == ["algorithm", "ann", "ben"]
    score = store.one("SELECT score_roi AS score FROM readings")["score"]
    for name in ("ann", "algorithm"):
        assert said[name]["Anomaly score"] == [pytest.approx(score)] and said[name]["Decision"] == ["Abnormal"]
        assert said[name]["Device Observer Model Name"] == ["PMSACL Studio PaDiM"]
        assert f"run: {run}" in said[name]["Algorithm Parameters"]
    assert "Anomaly score" not in said["ben"] and "Device Observer Model Name" not in said["ben"]  # none was in view
    assert said["ben"]["Decision"] == ["Normal"]
    assert said["ann"]["Comment"] == ["odd here"] and said["ann"]["Finding"] == ["polyp", "artefact"]
    assert said["ann"]["Area"] == [260.0]
    box, point = said["ann"]["Image Region"]
    assert box[:6] == [5, 10, 31, 10, 31, 20] and point[:6] == [4.5, 9.5, 5.5, 9.5, 5.5, 10.5]
    with pytest.raises(ValueError, match="has scored no case"):
        export_dicom_sr(store, study, tmp_path / "no", "root", run="nobody")


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPORTS)
def test_exported_again_it_is_the_same_and_names_nobody(scored, tmp_path, kind):
    store, study, *_ = scored
    source = pydicom.dcmread(tmp_path / "ct" / "slice.dcm")
    for keep in (False, True):
        for folder in (tmp_path / f"1{keep}", tmp_path / f"2{keep}"):
            EXPORTS[kind](store, study, folder, "root", keep)
        again = {file.name: file.read_bytes() for file in (tmp_path / f"2{keep}").iterdir()}
        assert again == {file.name: file.read_bytes() for file in (tmp_path / f"1{keep}").iterdir()}
    plain, named = written(tmp_path / "1False"), written(tmp_path / "1True")
    text = "".join(map(str, plain.values()))
    for secret in ("Doe", "MRN7", "Who^", "20240131", "acc-1", source.SOPInstanceUID, source.StudyInstanceUID, "ann^"):
        assert secret not in text, secret
    for made in named.values():
        assert made.PatientName == "Doe^Jane" and made.StudyInstanceUID == source.StudyInstanceUID
        assert source.SOPInstanceUID in str(made)
    assert not {m.SOPInstanceUID for m in plain.values()} & {m.SOPInstanceUID for m in named.values()}


def test_another_mask_has_another_uid(scored, tmp_path):
    store, study, case, _ = scored
    export_dicom_seg(store, study, tmp_path / "a", "root")
    save_mask(store, case, np.ones((48, 40), np.uint8), "ben")
    export_dicom_seg(store, study, tmp_path / "b", "root")
    [a], [b] = written(tmp_path / "a").values(), written(tmp_path / "b").values()
    assert a.SOPInstanceUID != b.SOPInstanceUID and a.SegmentSequence[0].SegmentAlgorithmType == "SEMIAUTOMATIC"
    [used] = a.SegmentSequence[0].SegmentationAlgorithmIdentificationSequence
    assert "outlined at=0.4" in used.AlgorithmParameters and b.SegmentSequence[0].SegmentAlgorithmType == "MANUAL"


def test_a_frame_of_an_enhanced_file_lies_where_its_groups_say(tmp_path):
    source = ct(tmp_path / "a.dcm")
    source.NumberOfFrames, source.PixelData = 2, source.PixelData * 2
    shared, frames = pydicom.Dataset(), [pydicom.Dataset(), pydicom.Dataset()]
    shared.PixelMeasuresSequence = [pydicom.Dataset()]
    shared.PixelMeasuresSequence[0].PixelSpacing, shared.PixelMeasuresSequence[0].SliceThickness = [0.5, 0.25], 3
    for z, group in enumerate(frames):
        group.PlanePositionSequence = [pydicom.Dataset()]
        group.PlanePositionSequence[0].ImagePositionPatient = [1, 2, z]
    source.SharedFunctionalGroupsSequence, source.PerFrameFunctionalGroupsSequence = [shared], frames
    del source.PixelSpacing, source.ImagePositionPatient
    made = segment(source, np.ones((48, 40), np.uint8), 1)
    [group] = made.PerFrameFunctionalGroupsSequence
    assert list(group.PlanePositionSequence[0].ImagePositionPatient) == [1, 2, 1]
    assert list(made.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing) == [0.5, 0.25]
    assert int(group.DerivationImageSequence[0].SourceImageSequence[0].ReferencedFrameNumber) == 2


def test_a_uid_says_nothing_of_what_it_names():
    assert uid_of("a", 1) == uid_of("a", "1") != uid_of("a1") and len(uid_of("a")) <= 64
    bare = Algorithm()
    assert bare.equipment["device_serial_number"] == "none" and "threshold" not in bare.facts
    header = pydicom.Dataset()
    header.SOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    assert Source.of(header).header.SOPInstanceUID == Source.of(pydicom.Dataset(header)).header.SOPInstanceUID


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dciodvfy is not here: apt install dicom3tools")
@pytest.mark.parametrize("kind", EXPORTS)
def test_dciodvfy_finds_no_error(scored, tmp_path, kind):
    store, study, *_ = scored
    EXPORTS[kind](store, study, tmp_path / "out", "root")
    assert {file.name: errors_of(file) for file in (tmp_path / "out").iterdir() if errors_of(file)} == {}
