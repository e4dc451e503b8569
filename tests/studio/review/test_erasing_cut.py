"""An erasure that is cut anywhere goes on by itself, nothing erased comes back by itself, and no id is given twice."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.studio.bundle import export_bundle, import_bundle
from core.studio.db import audit, backup, opening
from core.studio.db.store import NotFound
from core.studio.incoming import watch
from core.studio.incoming.dicom_node import as_file
from core.studio.ingest import cache, erased
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.studies import add_cases, import_study
from core.studio.review import decisions, erasing
from tests.app.routes.clients import client_of
from tests.conftest import ROOT, picture, write
from tests.studio.incoming.conftest import clock, look, run_jobs, states  # noqa: F401
from tests.studio.incoming.test_dicom_node import image as dicom_image
from tests.studio.review.conftest import STUDY, asks, decide, draw_folder, save_mask

PATIENTS = ("Mustermann", "20", "no-one-else", "Ärzte & Söhne")


def is_in_bytes(home, *words: str) -> list[str]:
    """The files of a home that hold one of the words, by content or name."""
    found = []
    for file in [file for file in home.path.rglob("*") if file.is_file()]:
        name, content = str(file.relative_to(home.path)), file.read_bytes()
        found += [name] * any(word in name or word.encode() in content for word in words)
    return found


def folder_of_patients(folder: Path) -> Path:
    """Two images of each patient among the test images, and normal ones of nobody."""
    draw_folder(folder, 6, 3, 1)
    for number, patient in enumerate(PATIENTS):
        for i in range(2):
            write(folder / "test/abnormal" / f"{patient}_{i}.png", picture(100 + 10 * number + i, (72, 60))[0])
    return folder


@pytest.fixture
def clinic(tmp_path, no_worker):
    """A home with a study of four patients, annotated and read, comments that name files, and a backup."""
    store = opening.open(str(tmp_path / "home"))
    folder = folder_of_patients(tmp_path / "images")
    pattern = f"^({'|'.join(PATIENTS)})_"
    import_study(store, STUDY, folder, copy=True, patients=pattern, size=32)
    cases = store.query("SELECT id, name, width, height FROM cases WHERE split = 'test' ORDER BY id")
    for number, case in enumerate(cases):
        other = cases[(number + 3) % len(cases)]["name"]
        save_mask(store, case["id"], np.ones((case["height"], case["width"])), "ann")
        decide(store, case["id"], "ann", "abnormal", comment=f"20 like {other}")
        decisions.add_finding(asks(store, "ann", case_id=case["id"]), "polyp", f"see {other}")
    store.set_setting("show:ann", {"opacity": 20, "heat": "20"})
    backup.backup(store.home)
    yield store
    store.close()


def assert_erased(store, patient: str, before: dict) -> None:
    """before: what must be as it was, by `standing`."""
    names = [f"{patient}_{i}.png" for i in range(2)]
    assert is_in_bytes(store.home, *names) == []
    assert store.query("SELECT * FROM erasures WHERE step IS NOT NULL OR request IS NOT NULL OR done IS NULL") == []
    assert audit.verify(store)["ok"], audit.verify(store)
    assert len(list(store.home.backups.glob("*.sqlite"))) == 1
    assert backup.check(next(store.home.backups.glob("*.sqlite"))) and backup.backup(store.home)
    now = standing(store)
    assert {k: v for k, v in before.items() if not k.startswith(patient)} == now
    with pytest.raises(NotFound):
        erasing.cases_of(store, patient)


def standing(store) -> dict:
    """What an erasure of another patient does not touch: decisions by case, and the settings of a reader."""
    rows = store.query("SELECT c.name, r.decision FROM reviews r JOIN cases c ON c.id = r.case_id ORDER BY r.id")
    return {**{row["name"]: row["decision"] for row in rows}, "show": store.setting("show:ann")}


class Cut(BaseException):
    """As a process that ends here."""


@pytest.mark.parametrize("patient", ["Mustermann", "20"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", list(erasing.STEPS))
def test_go_on_after_a_cut_at_each_step(clinic, monkeypatch, step, after, patient):
    before, real = standing(clinic), erasing.STEPS[step]

    def cut(*args):
        if after:
            real(*args)
        raise Cut

    monkeypatch.setitem(erasing.STEPS, step, cut)
    with pytest.raises(Cut):
        erasing.erase(clinic, erasing.cases_of(clinic, patient), "root", patient)
    monkeypatch.setitem(erasing.STEPS, step, real)
    assert list(clinic.home.backups.glob("*.sqlite")), "no backup is deleted before there is another"
    again = opening.open(clinic.home)
    assert erasing.go_on(again) == []
    assert_erased(again, patient, before)
    assert erasing.go_on(again) == []
    assert again.first("SELECT count(*) AS n FROM events WHERE kind = 'erase'")["n"] == 1
    again.close()


KILLED = """
import os, sys
from core.studio.db import opening
from core.studio.review import erasing
real, step = erasing.STEPS[sys.argv[2]], sys.argv[2]
erasing.STEPS[step] = lambda *args: (real(*args), os.kill(os.getpid(), 9))
store = opening.open(sys.argv[1])
erasing.erase(store, erasing.cases_of(store, "Mustermann"), "root", "Mustermann")
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["rows", "forget"])
def test_go_on_after_a_process_was_killed(clinic, step):
    before = standing(clinic)
    line = [sys.executable, "-c", KILLED, str(clinic.home.path), step]
    assert subprocess.run(line, cwd=ROOT, check=False, capture_output=True).returncode == -9
    assert erasing.go_on(clinic) == []
    assert_erased(clinic, "Mustermann", before)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_walk_of_erasing_importing_deciding_and_cuts(clinic, tmp_path, monkeypatch, seed):
    """Whatever happens in whatever order: the chain is whole, a backup can be made, what was erased stays away."""
    draw, gone, ids, reached = random.Random(seed), set[str](), set[int](), {"cut": 0, "erased": 0}
    real = dict(erasing.STEPS)

    def flaky(name):
        def step(*args):
            if draw.random() < 0.3:
                reached["cut"] += 1
                raise Cut
            real[name](*args)
            if draw.random() < 0.3:
                reached["cut"] += 1
                raise Cut

        return step

    for name in real:
        monkeypatch.setitem(erasing.STEPS, name, flaky(name))
    for turn in range(14):
        act = draw.choice(["erase", "go on", "import", "import", "decide", "backup"])
        left = [patient for patient in PATIENTS if patient not in gone]
        cases = clinic.query("SELECT id, name FROM cases WHERE split = 'test'")
        try:
            if act == "erase" and left:
                patient = draw.choice(left)
                gone.add(patient)
                reached["erased"] += 1
                erasing.erase(clinic, erasing.cases_of(clinic, patient), "root", patient)
            elif act == "go on":
                erasing.go_on(clinic)
            elif act == "import":
                source = tmp_path / f"more-{turn}"
                patient = draw.choice(PATIENTS)
                source.mkdir()
                shutil.copy(tmp_path / "images/test/abnormal" / f"{patient}_0.png", source / f"{turn}.png")
                write(source / f"new-{turn}.png", picture(turn, (72, 60))[0])
                before = {row["id"] for row in clinic.query("SELECT id FROM cases")}
                add_cases(clinic, STUDY, sorted(source.iterdir()), copy=True)
                new = {row["id"] for row in clinic.query("SELECT id FROM cases")} - before
                assert not new & ids, "no id is given twice"
                ids |= before | new
            elif act == "decide":
                case, other = draw.sample(cases, 2)
                decide(clinic, case["id"], "ben", "normal", comment=f"as {other['name']}, 20 %")
            else:
                backup.backup(clinic.home)
        except Cut:
            pass
        assert audit.verify(clinic)["ok"]
        assert clinic.setting("show:ann") == {"opacity": 20, "heat": "20"}
    for name, step in real.items():
        monkeypatch.setitem(erasing.STEPS, name, step)
    assert erasing.go_on(clinic) == []
    for patient in gone:
        names = [f"{patient}_{i}.png" for i in range(2)]
        assert clinic.query("SELECT 1 FROM cases WHERE name IN (?, ?)", names) == []
        pixels = [(tmp_path / "images/test/abnormal" / name).read_bytes() for name in names]
        assert [f for f in clinic.home.path.rglob("*.png") if f.read_bytes() in pixels] == []
    assert backup.backup(clinic.home)
    assert reached["erased"] == len(gone)


def test_comments_on_other_cases_lose_the_name_and_the_trail_stays_whole(clinic):
    erasing.erase(clinic, erasing.cases_of(clinic, "Mustermann"), "root", "Mustermann")
    comments = [row["comment"] for row in clinic.query("SELECT comment FROM reviews")]
    assert sum(audit.ERASED in text for text in comments) == 2 and all(text.startswith("20 like ") for text in comments)
    event = json.loads(clinic.first("SELECT after FROM events WHERE kind = 'erase'")["after"])
    assert len(event["comments"]) == 2 and audit.verify(clinic)["ok"]
    clinic.execute("DROP TRIGGER reviews_said_once")
    clinic.execute("UPDATE reviews SET comment = 'x' WHERE id = ?", [event["comments"][0]["review"]])
    assert not audit.verify(clinic)["ok"], "a later change of such a comment is still seen"


def test_a_name_too_short_to_be_looked_for_changes_no_text(clinic):
    others = (
        "SELECT f.comment FROM findings f JOIN cases c ON c.id = f.case_id "
        "WHERE c.name NOT LIKE '20%' AND f.comment NOT LIKE '%20%'"
    )
    texts = [row["comment"] for row in clinic.query(others)]
    erasing.erase(clinic, erasing.cases_of(clinic, "20"), "root", "20")
    assert texts and texts == [row["comment"] for row in clinic.query(others.replace("'%20%'", "'%(erased)%'"))]
    assert clinic.setting("show:ann") == {"opacity": 20, "heat": "20"}
    client = client_of(clinic, single_user=True)
    assert client.get(f"/api/review/open?study={STUDY}").status_code == 200


def test_a_page_that_still_holds_an_erased_case_decides_on_no_other(clinic, tmp_path):
    client = client_of(clinic, single_user=True)
    last = clinic.first("SELECT max(id) AS id FROM cases")["id"]  # a number that SQLite would give again
    erasing.erase(clinic, erasing.cases_of(clinic, case=last), "root")
    new = write(tmp_path / "next.png", picture(999, (72, 60))[0])
    add_cases(clinic, STUDY, [new])
    assert clinic.first("SELECT max(id) AS id FROM cases")["id"] > last
    sent = {"case": last, "decision": "normal", "token": "t"}
    assert client.post("/api/review/decide", json=sent).status_code in (400, 404)
    assert clinic.query("SELECT 1 FROM reviews WHERE decision = 'normal'") == []


def test_a_backup_that_is_not_sound_leaves_the_old_ones_until_one_is(clinic, monkeypatch):
    (old,) = clinic.home.backups.glob("*.sqlite")
    real = backup.backup

    def fails(*args, **options):
        raise backup.BadBackup("not sound")

    monkeypatch.setattr(backup, "backup", fails)
    done = erasing.erase(clinic, erasing.cases_of(clinic, "Mustermann"), "root", "Mustermann")
    assert "continues automatically: not sound" in done["open"][0] and old.exists()
    monkeypatch.setattr(backup, "backup", real)
    assert erasing.go_on(clinic) == [] and not old.exists()
    assert is_in_bytes(clinic.home, "Mustermann_0.png") == []


def test_images_prepared_while_a_patient_is_erased_leave_no_pixels(clinic, monkeypatch):
    shutil.rmtree(clinic.home.cache / STUDY)
    real, done_once = cache.write_part, []

    def write_and_erase(*args, **options):
        done = real(*args, **options)
        if not done_once:
            done_once.append(1)
            erasing.erase(clinic, erasing.cases_of(clinic, "Mustermann"), "root", "Mustermann")
        return done

    monkeypatch.setattr(cache, "write_part", write_and_erase)
    arrays = load_arrays(clinic, STUDY, 32)
    assert done_once and len(arrays) == clinic.first("SELECT count(*) AS n FROM cases")["n"]
    sets = list((clinic.home.cache / STUDY).glob("32-*/meta.json"))
    assert len(sets) == 1 and cache.cases_in(sets[0].parent) == len(arrays)


def test_an_older_backup_that_is_restored_brings_nobody_back(clinic, tmp_path):
    (old,) = clinic.home.backups.glob("*.sqlite")
    elsewhere = shutil.copy(old, tmp_path / "elsewhere.sqlite")
    highest = clinic.first("SELECT max(id) AS id FROM cases")["id"]
    erasing.erase(clinic, erasing.cases_of(clinic, "Ärzte & Söhne"), "root", "Ärzte & Söhne")
    backup.restore(clinic.home, Path(elsewhere))
    assert len(erasing.cases_of(clinic, "Ärzte & Söhne")) == 2
    assert erasing.go_on(clinic) == []
    with pytest.raises(NotFound):
        erasing.cases_of(clinic, "Ärzte & Söhne")
    assert audit.verify(clinic)["ok"] and is_in_bytes(clinic.home, "Söhne_0.png") == []
    add_cases(clinic, STUDY, [write(tmp_path / "next.png", picture(999, (72, 60))[0])])
    assert clinic.first("SELECT max(id) AS id FROM cases")["id"] > highest


def test_what_was_erased_is_not_imported_again_unless_somebody_says_so(clinic, tmp_path):
    images = tmp_path / "images/test/abnormal"
    erasing.erase(clinic, erasing.cases_of(clinic, "Mustermann"), "root", "Mustermann")
    other = shutil.copy(images / "Mustermann_0.png", tmp_path / "renamed.png")
    report = add_cases(clinic, STUDY, [other])
    assert report.accepted == 0 and "was erased from this home" in report.rejected[0]["reason"]
    whole = import_study(clinic, "once more", tmp_path / "images")
    assert sum("was erased" in row["reason"] for row in whole.rejected) == 2
    assert add_cases(clinic, STUDY, [other], again=True).accepted == 1
    assert add_cases(clinic, "once-more", [other]).accepted == 1, "it was taken back: nothing refuses it any more"
    assert erasing.go_on(clinic) == [] and clinic.query("SELECT 1 FROM cases WHERE name = 'renamed.png'")


def test_a_bundle_does_not_bring_an_erased_image_back(clinic, tmp_path):
    bundle = tmp_path / "room.zip"
    export_bundle(clinic, STUDY, bundle, "root")
    other = opening.open(str(tmp_path / "other"))
    add_to = import_study(other, "first", tmp_path / "images", copy=True, patients="^(20)_")
    assert add_to.accepted
    erasing.erase(other, erasing.cases_of(other, "20"), "root", "20")
    with pytest.raises(ValueError, match="was erased from this home"):
        import_bundle(other, bundle, "root")
    assert other.query("SELECT id FROM studies") == [{"id": "first"}]
    add_cases(other, "first", sorted((tmp_path / "images/test/abnormal").glob("20_*.png")), again=True)
    assert import_bundle(other, bundle, "root")["study"] == STUDY
    other.close()


def test_a_dicom_image_is_known_again_by_its_instance_though_its_header_changed(clinic, tmp_path):
    ds = dicom_image(tmp_path, 1)
    first = tmp_path / "first.dcm"
    first.write_bytes(as_file(ds))
    add_cases(clinic, STUDY, [first], copy=True)
    case = clinic.first("SELECT id FROM cases WHERE name = 'first.dcm'")["id"]
    erasing.erase(clinic, erasing.cases_of(clinic, case=case), "root")
    ds.StationName = "another room"
    second = tmp_path / "second.dcm"
    second.write_bytes(as_file(ds))
    report = add_cases(clinic, STUDY, [second])
    assert report.accepted == 0 and "was erased" in report.rejected[0]["reason"]
    assert erased.known(clinic, str(ds.SOPInstanceUID)), "which a DICOM node asks before it stores"


def test_a_watched_folder_does_not_take_an_erased_image_again(clinic, tmp_path, clock):  # noqa: F811
    folder = tmp_path / "watched"
    folder.mkdir()
    watch.set_watch(clinic, STUDY, str(folder), "root", copy=True)
    write(folder / "scan.png", picture(500, (72, 60))[0])
    look(clinic, clock)
    run_jobs(clinic)
    case = clinic.first("SELECT * FROM cases WHERE name = 'scan.png'")
    erasing.erase(clinic, erasing.cases_of(clinic, case=case["id"]), "root")
    for _ in range(2):
        look(clinic, clock)
        run_jobs(clinic)
        assert states(clinic) == {"scan.png": "failed"} and not Path(case["path"]).exists()
    assert "was erased" in watch.get_watch(clinic, STUDY)["left_out"][0]["note"]
    assert clinic.query("SELECT 1 FROM cases WHERE name = 'scan.png'") == []
