"""A patient is erased: no byte of the home has it, what learnt from it says so, and the audit trail is whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from app.commands import main
from core.engine.files import file_sha256
from core.studio.db import audit, backup, opening
from core.studio.db.store import NotFound
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.review import cases as case_rows
from core.studio.review import decisions, erasing
from core.studio.runs import learnt, marks
from core.studio.runs import records as runs
from core.studio.training import requests
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import STUDY, add_readings, asks, decide, draw_folder, save_mask

NAME = "Mustermann-4711"


@pytest.fixture
def ward(tmp_path):
    """(store, cases of the patient, another's case, scored run): two studies; in one the patient has three test cases,
    marked and decided on, in the other one training image of the same content under another name."""
    store = opening.open(str(tmp_path / "home"))
    folder = draw_folder(tmp_path / "images")
    for number in range(3):
        old = folder / "test/abnormal" / f"a{number:02}.png"
        old.rename(folder / "test/abnormal" / f"{NAME}_{number}.png")
        (folder / "test/mask" / old.name).rename(folder / "test/mask" / f"{NAME}_{number}.png")
    import_study(store, STUDY, folder, copy=True, patients="^(Mustermann-[0-9]+|.)", size=32)
    other = draw_folder(tmp_path / "other", 6, 1, 1)
    shutil.copy(folder / "test/abnormal" / f"{NAME}_0.png", other / "train/normal" / "same.png")
    import_study(store, "other", other, copy=True, size=32)
    run = add_readings(store, STUDY, "padim")
    runs.update_run(store, run, summary={"calibration": {"x": 1}})
    encoder = runs.create_run(store, "other", "pretrain", "pmsacl", {})
    runs.update_run(store, encoder, status="done")
    mine = [r["id"] for r in store.query("SELECT id FROM cases WHERE name LIKE ? ORDER BY id", [f"{NAME}%"])]
    theirs = store.first("SELECT id FROM cases WHERE study = ? AND name LIKE 'a0%' ORDER BY id", [STUDY])["id"]
    for case in (*mine, theirs):
        size = store.first("SELECT width, height FROM cases WHERE id = ?", [case])
        drawn = np.zeros((size["height"], size["width"]), np.uint8)
        drawn[5:20, 5:20] = 1
        save_mask(store, case, drawn, "ann", note="seen")
        decide(store, case, "ann", "abnormal", comment=f"{NAME} came back" if case in mine else "clear")
        decisions.add_finding(asks(store, "ann", case_id=case), "polyp", "flat")
    case_rows.change_tag(store, STUDY, [*mine, theirs], "odd", "ann")
    backup.backup(store.home)
    yield store, mine, theirs, run, encoder
    store.close()


def bytes_with(home, *words: bytes) -> list[str]:
    return [f.name for f in home.path.rglob("*") if f.is_file() and any(w in f.read_bytes() for w in words)]


def test_nothing_of_the_patient_is_left_in_a_byte_of_the_home(ward):
    store, mine, theirs, run, encoder = ward
    same = store.first("SELECT id FROM cases WHERE name = 'same.png'")["id"]
    rows = erasing.cases_of(store, NAME)
    assert [row["id"] for row in rows] == sorted([*mine, same])
    found = erasing.trace(store, rows)
    assert (found.masks, found.reviews, found.findings, found.readings, found.backups) == (6, 3, 3, 3, 1)
    assert found.studies == ["other", STUDY] and len(found.files) == 4 and not found.outside
    assert [r["id"] for r in found.runs] == [encoder], "only what was trained with it, or marked by it"
    digest = rows[0]["sha256"]
    pixels = Path(rows[0]["path"]).read_bytes()
    texts = (NAME.encode(), digest.encode(), pixels[40:])
    assert len(bytes_with(store.home, *texts)) >= 4
    done = erasing.erase(store, rows, "root", NAME)
    assert done["still"] == []
    assert bytes_with(store.home, *texts) == []
    assert NAME not in "".join(map(str, store.home.path.rglob("*")))
    assert [f for f in store.home.path.rglob("*.png") if file_sha256(f) == digest] == []
    left = {row["id"] for row in store.query("SELECT id FROM cases")}
    assert theirs in left and not {*mine, same} & left
    assert [r["comment"] for r in store.query("SELECT comment FROM reviews")] == ["clear"]
    trail = audit.verify(store)
    assert trail["ok"], trail
    event = store.first("SELECT * FROM events WHERE kind = 'erase'")
    assert json.loads(event["after"])["cases"] == 4 and event["who"] == "root"
    made = backup.backups(store.home.backups)
    assert len(made) == 1 and backup.check(store.home.backups / made[0].file)
    assert (
        len(load_arrays(store, STUDY, 32))
        == store.first("SELECT count(*) AS n FROM cases WHERE study = ?", [STUDY])["n"]
    )
    assert "cannot be repeated exactly" in runs.get_run(store, encoder)["note"]
    with pytest.raises(NotFound):
        erasing.cases_of(store, NAME)


def test_what_was_guarded_is_guarded_again(ward):
    store, mine, theirs, *_ = ward
    erasing.erase(store, erasing.cases_of(store, case=mine[0]), "root")
    for statement in ("DELETE FROM reviews", "UPDATE reviews SET comment = 'x'", "UPDATE lesion_masks SET note = 'x'",
                      "UPDATE events SET who = 'x'", "DELETE FROM events"):  # fmt: skip
        with pytest.raises(Exception, match="never"):
            store.execute(statement)
    assert audit.verify(store)["ok"]


def test_a_run_whose_marked_case_was_erased_says_so_and_learns_anew_without_it(ward, no_worker):
    store, mine, theirs, run, _ = ward
    taught = runs.create_run(store, **learnt.planned(store, run))
    runs.update_run(store, taught, status="done")
    assert {*mine, theirs} == {*runs.get_run(store, taught)["config"]["marks"]["cases"]}
    rows = erasing.cases_of(store, NAME)
    assert taught in [r["id"] for r in erasing.trace(store, rows).runs]
    erasing.erase(store, rows, "root", NAME)
    said = marks.repeat_problem(store, runs.get_run(store, taught))
    assert "cannot be repeated: " in said and "Start a new run" in said
    again = requests.repeat(store, taught, wake=False)["run"]
    assert runs.get_run(store, again)["config"]["marks"]["cases"] == [theirs]
    assert marks.repeat_problem(store, runs.get_run(store, again)) is None


def test_files_elsewhere_stay_and_are_named_and_work_is_waited_for(tmp_path, no_worker):
    store = opening.open(str(tmp_path / "home"))
    import_study(store, "s", draw_folder(tmp_path / "images", 3, 1, 1))
    row = store.first("SELECT * FROM cases WHERE split = 'test' ORDER BY id")
    rows = erasing.cases_of(store, case=row["id"])
    found = erasing.trace(store, rows)
    assert found.outside == [row["path"]] and found.files == [] and row["path"] in "\n".join(erasing.words(found))
    run = runs.create_run(store, "s", "fit", "padim", {})
    job = jobs.submit(store, [{"step": "fit", "run": run}], start=False)
    with pytest.raises(ValueError, match="stop all jobs"):
        erasing.erase(store, rows, "root")
    jobs.cancel(store, job)
    erasing.erase(store, rows, "root")
    assert cv2.imread(row["path"]) is not None
    store.close()


@pytest.mark.slow
def test_the_verb_and_the_route_name_first_and_erase_what_was_named(ward, capsys):
    store, mine, *_ = ward
    home = ["--home", str(store.home.path), "--json"]
    assert main(["erase", NAME, *home]) == 0
    assert not json.loads(capsys.readouterr().out.splitlines()[-1])["erased"]
    assert main(["erase", "nobody", *home]) != 0
    client = client_of(store, single_user=True)
    named = client.post("/api/erase/find", json={"patient": NAME}).json()
    assert named["trace"]["cases"] == 4 and any("again without these cases" in line for line in named["lines"])
    assert client.post("/api/erase", json={"patient": NAME, "cases": 3}).status_code == 400
    assert store.first("SELECT count(*) AS n FROM cases WHERE name LIKE ?", [f"{NAME}%"])["n"] == 3
    assert client.post("/api/erase", json={"patient": NAME, "cases": 4}).json()["still"] == []
    assert main(["erase", NAME, "--yes", *home]) != 0
