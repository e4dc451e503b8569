"""Volumes of one file a slice: what belongs together, in which order, and that it stays so when slices come later."""

import json
import shutil

import numpy as np
import pydicom
import pytest
from pydicom.uid import generate_uid

from core.studio.incoming import watch
from core.studio.ingest import studies, volumes
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import cases, sessions
from tests.studio.ingest.dicoms import write_dicom, write_volume
from tests.studio.review.conftest import asks

TILTED = (0.8, 0.6, 0, 0, 0, -1)  # normal (-0.6, 0.8, 0)


def paths_in_line(store, path):
    """Paths of the cases that the timeline shows beside the case of this file."""
    case = store.one("SELECT id FROM cases WHERE path = ?", [str(path)])
    ids = [f["id"] for f in cases.timeline(asks(store, case_id=case["id"]))]
    by_id = {r["id"]: r["path"] for r in store.query("SELECT id, path FROM cases")}
    return [by_id[i] for i in ids]


def in_place(written):
    return [str(written[k]) for k in sorted(written)]


@pytest.mark.parametrize("axes", [(1, 0, 0, 0, 1, 0), (0, 1, 0, 0, 0, -1), TILTED, (-1, 0, 0, 0, 1, 0)])
def test_slices_are_one_series_in_the_order_of_their_places(store, tmp_path, axes):
    written = write_volume(tmp_path / "in", 12, axes)
    assert in_place(written) != sorted(in_place(written))  # the names lie
    report = studies.import_study(store, "ct", tmp_path / "in")
    assert report.accepted == 12 and not report.rejected
    assert paths_in_line(store, written[5]) == in_place(written)
    rows = store.query('SELECT path, name, frame, split FROM cases ORDER BY split DESC, "row"')
    taken = [r["path"] for r in rows if r["split"] == "train"]
    assert taken == [p for p in in_place(written) if p in taken]  # and so do they lie in the study
    assert {r["frame"] for r in rows} == {0}
    # A name carries the slice's own number, as a recording's frames carry theirs.
    assert {r["name"] for r in rows} == {f"{written[k].name} #{12 - k}" for k in range(12)}


def test_two_series_a_scout_and_files_of_another_size_stay_apart(store, tmp_path):
    place, study = generate_uid(), generate_uid()
    first = write_volume(tmp_path / "in", 6, StudyInstanceUID=study, FrameOfReferenceUID=place, files="a{name}")
    second = write_volume(tmp_path / "in", 5, StudyInstanceUID=study, FrameOfReferenceUID=place, files="b{name}")
    series = pydicom.dcmread(first[0]).SeriesInstanceUID
    alike = {"StudyInstanceUID": study, "SeriesInstanceUID": series, "FrameOfReferenceUID": place}
    [scout] = write_volume(tmp_path / "in", 1, (0, 1, 0, 0, 0, -1), files="scout", **alike).values()
    [large] = write_volume(tmp_path / "in", 1, shape=(48, 64), files="large", **alike).values()
    [moved] = write_volume(
        tmp_path / "in", 1, files="moved", **alike | {"FrameOfReferenceUID": generate_uid()}
    ).values()
    [other] = write_volume(tmp_path / "in", 1, files="other", **alike | {"StudyInstanceUID": generate_uid()}).values()
    studies.import_study(store, "ct", tmp_path / "in")
    assert paths_in_line(store, first[3]) == in_place(first)
    assert paths_in_line(store, second[3]) == in_place(second)
    for lone in (scout, large, moved, other):
        assert paths_in_line(store, lone) == []
        assert store.one("SELECT name FROM cases WHERE path = ?", [str(lone)])["name"] == lone.name


def test_a_missing_slice_and_directions_with_rounding_errors_break_nothing(store, tmp_path):
    written = write_volume(tmp_path / "in", 9, missing=(3, 4))
    for k, path in written.items():
        ds = pydicom.dcmread(path)
        ds.ImageOrientationPatient = [1, 1e-7 * (-1) ** k, 0, -1e-7 * (-1) ** k, 1, 0]
        ds.save_as(path)
    studies.import_study(store, "ct", tmp_path / "in")
    assert paths_in_line(store, written[0]) == in_place(written) and len(written) == 7


def test_without_a_position_the_instance_number_orders(store, tmp_path):
    for name, left_out in (
        ("bare", {"ImagePositionPatient": None, "ImageOrientationPatient": None}),
        ("flat", {"ImageOrientationPatient": None}),
        ("odd", {"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}),  # two directions that are one
    ):
        written = write_volume(tmp_path / name, 11, **left_out)
        studies.import_study(store, name, tmp_path / name)
        assert paths_in_line(store, written[0]) == in_place(written)[::-1]  # numbered against the places


def test_slices_at_one_place_follow_their_numbers(store, tmp_path):
    written = write_volume(tmp_path / "in", 6, step=0.0)  # six times the same slice, as of a beating heart
    studies.import_study(store, "heart", tmp_path / "in")
    assert paths_in_line(store, written[0]) == in_place(written)[::-1]


def test_what_is_no_slice_stays_a_case_of_its_own(store, tmp_path):
    folder = tmp_path / "in"
    lone = write_volume(folder, 1, files="lone.dcm")[0]
    plain = write_volume(folder, 3, files="p{name}", InstanceNumber=None, ImagePositionPatient=None)
    nameless = write_volume(folder, 3, files="n{name}", SeriesInstanceUID=None, seed=1)
    views = write_volume(folder, 4, files="m{name}", Modality="MG", ImagePositionPatient=None, seed=2)
    film = write_dicom(
        folder / "film.dcm", np.random.default_rng(0).integers(0, 99, (4, 24, 32), np.uint16),
        SeriesInstanceUID=generate_uid(), InstanceNumber=1,
    )  # fmt: skip
    report = studies.import_study(store, "mixed", folder)
    assert report.accepted == 1 + 3 + 3 + 4 + 4 and not report.rejected
    for path in (lone, *plain.values(), *nameless.values(), *views.values()):
        assert paths_in_line(store, path) == [] and volumes.parts(store, "mixed").keys().isdisjoint(
            {store.one("SELECT id FROM cases WHERE path = ?", [str(path)])["id"]}
        )
        assert store.one("SELECT name FROM cases WHERE path = ?", [str(path)])["name"] == path.name
    frames = store.query("SELECT id, frame, series FROM cases WHERE path = ? ORDER BY frame", [str(film)])
    line = cases.timeline(asks(store, case_id=frames[2]["id"]))
    assert [f["id"] for f in line] == [f["id"] for f in frames] and {f["series"] for f in frames} == {None}


def test_slices_that_come_later_find_their_place(store, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: None)
    written = write_volume(tmp_path / "all", 8, SeriesInstanceUID=generate_uid())
    (tmp_path / "in").mkdir()
    write_dicom(tmp_path / "in" / "normal.dcm", np.random.default_rng(5).integers(0, 99, (24, 32), np.uint16))
    study = studies.import_study(store, "ct", tmp_path / "in").study
    studies.add_cases(store, study, [written[4]])
    first = store.one("SELECT id, name FROM cases WHERE path = ?", [str(written[4])])
    assert first["name"] == written[4].name and cases.timeline(asks(store, case_id=first["id"])) == []
    studies.add_cases(store, study, [written[6], written[1]], copy=True)  # the home's copies belong to it as well
    assert [f["id"] for f in cases.timeline(asks(store, case_id=first["id"]))].index(first["id"]) == 1
    assert store.one("SELECT name FROM cases WHERE id = ?", [first["id"]])["name"] == f"{written[4].name} #4"
    drop = tmp_path / "drop"
    drop.mkdir()
    watch.set_watch(store, study, str(drop), "root")
    clock = [1000.0]
    for batch in ((7, 0), (2, 3, 5)):
        for k in batch:
            shutil.copy(written[k], drop)
        for _ in range(2):
            watch.look(store, lambda: clock[0])
            clock[0] += watch.SETTLE
        worker.run_queue(store)
    line = [f["id"] for f in cases.timeline(asks(store, case_id=first["id"]))]
    by_id = {r["id"]: r["name"] for r in store.query("SELECT id, name FROM cases")}
    assert [by_id[i] for i in line] == [f"{written[k].name} #{8 - k}" for k in range(8)]


def test_a_volume_lies_on_one_side_of_a_split(store, tmp_path):
    for i in range(5):
        write_volume(tmp_path / "in" / f"patient{i}", 6, seed=i)
    studies.import_study(store, "cts", tmp_path / "in")
    rows = store.query("SELECT series, count(DISTINCT split) AS sides, min(split) AS side FROM cases GROUP BY series")
    assert len(rows) == 5 and {r["sides"] for r in rows} == {1} and [r["side"] for r in rows].count("holdout") == 1
    # A volume that is all there is gives some of its slices: a study without held-out normals cannot be scored.
    studies.import_study(store, "one", tmp_path / "in" / "patient0")
    counts = {r["split"]: r["n"] for r in store.query(
        "SELECT split, count(*) AS n FROM cases WHERE study = 'one' GROUP BY split"
    )}  # fmt: skip
    assert counts == {"holdout": 2, "train": 4}


def test_a_blind_reader_learns_nothing_of_a_volume(store, tmp_path):
    written = write_volume(tmp_path / "in", 4)
    study = studies.import_study(store, "ct", tmp_path / "in").study
    case = store.one("SELECT id FROM cases WHERE path = ?", [str(written[0])])["id"]
    shown = cases.detail(asks(store, case_id=case))
    assert shown["frames"] == 4 and shown["recording"] == store.one("SELECT min(id) AS n FROM cases")["n"]
    sessions.set_blind(store, study, True, "root")
    shown = cases.detail(asks(store, case_id=case))
    assert not shown.keys() & {"frames", "recording", "frame"} and written[0].name not in json.dumps(shown)
