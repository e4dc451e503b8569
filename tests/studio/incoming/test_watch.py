"""A watched folder: what is dropped in comes into the study once it is complete, once, and is scored."""

import os
import subprocess
import sys

import pytest

from core.studio.db import audit, opening
from core.studio.incoming import watch
from core.studio.ingest import studies
from core.studio.runs import bin as bins
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.conftest import ARCH, picture, wait, write
from tests.studio.incoming.conftest import look, run_jobs, states
from tests.studio.review.conftest import list_of


def test_a_file_is_taken_when_it_lies_still_and_only_once(watched, clock):
    store, study, folder = watched
    path = write(folder / "new.png", picture(50)[0])
    assert watch.look(store, lambda: clock[0]) == [] and states(store) == {"new.png": "waiting"}
    clock[0] += watch.SETTLE / 2
    with path.open("ab") as file:  # still being written
        file.write(b"\0")
    clock[0] += watch.SETTLE / 2
    assert watch.look(store, lambda: clock[0]) == []
    clock[0] += watch.SETTLE
    queued = watch.look(store, lambda: clock[0])
    assert len(queued) == 1 and watch.look(store, lambda: clock[0]) == []
    run_jobs(store)
    case = store.one("SELECT * FROM cases WHERE path = ?", [str(path)])
    assert (case["split"], case["label"], case["name"]) == ("test", "unknown", "new.png")
    assert states(store) == {"new.png": "taken"} and look(store, clock) == []
    found = watch.get_watch(store, study)
    assert found["counts"] == {"taken": 1} and found["job"] is None and "no fit is finished" in found["message"]
    assert watch.changes(store)[study] == found["changed"]
    assert case["id"] in [r["id"] for r in list_of(store, None, "reader", study, None).page()["rows"]]


def test_doubles_are_not_imported_again_and_bad_files_keep_their_reason(watched, clock, tiny_folder):
    store, study, folder = watched
    before = store.one("SELECT count(*) AS n FROM cases")["n"]
    write(folder / "fresh.png", picture(60)[0])
    (folder / "again.png").write_bytes((folder / "fresh.png").read_bytes())
    (folder / "known.png").write_bytes((tiny_folder / "train/normal/n003.png").read_bytes())
    (folder / "broken.png").write_text("no picture")
    (folder / "half.png.part").write_bytes(b"x")
    (folder / ".hidden.png").write_bytes(b"x")
    look(store, clock)
    run_jobs(store)
    assert states(store) == {"again.png": "taken", "fresh.png": "double", "known.png": "double", "broken.png": "failed"}
    assert store.one("SELECT count(*) AS n FROM cases")["n"] == before + 1
    [left] = watch.get_watch(store, study)["left_out"]
    assert left["name"] == "broken.png" and "not an image" in left["note"]
    write(folder / "broken.png", picture(61)[0])  # mended: it is tried anew
    look(store, clock)
    run_jobs(store)
    assert states(store)["broken.png"] == "taken"


def test_a_name_used_again(watched, clock):
    store, study, folder = watched
    path = write(folder / "scan.png", picture(70)[0])
    look(store, clock)
    run_jobs(store)
    write(path, picture(71)[0])
    os.utime(path, (5, 5))
    look(store, clock)
    run_jobs(store)
    [left] = watch.get_watch(store, study)["left_out"]
    assert "overwritten" in left["note"] and "another name" in left["note"]
    watch.set_watch(store, study, str(folder), "root", copy=True)  # the studio keeps its own: a name may come again
    for seed in (72, 73):
        write(folder / "kept.png", picture(seed)[0])
        os.utime(folder / "kept.png", (seed, seed))
        look(store, clock)
        run_jobs(store)
    kept = store.query("SELECT path FROM cases WHERE name = 'kept.png'")
    assert len({c["path"] for c in kept}) == 2
    assert all(c["path"].startswith(str(store.home.files)) and os.path.exists(c["path"]) for c in kept)


def test_the_run_is_checked_and_a_missing_folder_is_said(watched, clock, tmp_path):
    store, study, folder = watched
    with pytest.raises(ValueError, match="does not exist"):
        watch.set_watch(store, study, str(tmp_path / "nowhere"), "root")
    with pytest.raises(ValueError, match="enter the path"):
        watch.set_watch(store, study, "  ", "root")
    encoder = pipeline.create_untrained(store, study, 32, arch=ARCH)
    with pytest.raises(ValueError, match="not a finished fit"):
        watch.set_watch(store, study, str(folder), "root", run=encoder)
    folder.rmdir()
    watch.look(store, lambda: clock[0])
    assert "There is no folder" in watch.get_watch(store, study)["message"]
    folder.mkdir()
    watch.look(store, lambda: clock[0])
    assert watch.get_watch(store, study)["message"] == ""
    watch.set_watch(store, study, str(folder), "root", active=False)
    write(folder / "a.png", picture(90)[0])
    assert look(store, clock) == [] and states(store) == {}
    kinds = [e["kind"] for e in audit.trail(store, study)]
    assert kinds.count("watch") == 2 and audit.verify(store)["ok"]


@pytest.mark.long
def test_it_happens_by_itself(store, tiny_study, tmp_path, monkeypatch):
    """The lookout's thread and a worker process of its own, nothing called by hand."""
    monkeypatch.setattr(watch, "SETTLE", 0.2)
    folder = tmp_path / "drop"
    folder.mkdir()
    watch.set_watch(store, tiny_study, str(folder), "root")
    with watch.Lookout(opening.open(store.home), every=0.1):
        write(folder / "new.png", picture(50)[0])
        wait(lambda: watch.get_watch(store, tiny_study)["counts"] == {"taken": 1}, 240)
    assert store.one("SELECT count(*) AS n FROM cases WHERE name = 'new.png'")["n"] == 1


@pytest.mark.long
def test_the_verb(store, tiny_study, tmp_path):
    folder = tmp_path / "drop"
    folder.mkdir()
    write(folder / "new.png", picture(50)[0])
    command = [sys.executable, "launch.py", "watch", tiny_study, str(folder), "--once", "--home", str(store.home.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "new.png" in done.stdout and "1 case imported" in done.stdout
    off = subprocess.run([*command[:4], "--off", *command[-2:]], capture_output=True, text=True, timeout=300)
    assert off.returncode == 0 and not watch.get_watch(store, tiny_study)["active"]


def test_a_study_in_the_bin_takes_nothing_until_it_is_restored(watched, clock):
    """Binned before a check, or between the check and its job: no file counts as tried."""
    store, study, folder = watched
    write(folder / "new.png", picture(50)[0])
    assert len(look(store, clock)) == 1
    bins.put_study(store, study, "ann")
    run_jobs(store)
    assert watch.look(store, lambda: clock[0]) == [] and watch.watched(store) == []
    assert [(r["state"], r["tries"]) for r in store.query("SELECT * FROM incoming")] == [("ready", 0)]
    bins.restore(store, "study", study, "ann")
    look(store, clock)
    run_jobs(store)
    assert states(store) == {"new.png": "taken"}


def test_a_watch_goes_with_its_study(watched):
    store, study, folder = watched
    studies.delete_study(store, study)
    assert store.query("SELECT * FROM watches") == [] and runs.list_runs(store, study) == []
