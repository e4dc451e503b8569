"""Copies of images that are added: twice in one drop, by a double click, after an add that was killed; and imports in
the background, which can be stopped."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.studio.ingest import copies
from core.studio.ingest.background import Imports
from core.studio.ingest.studies import add_cases, import_study
from tests.conftest import picture, wait, write

NAMED = "the study already has this file"


@pytest.fixture
def image(tmp_path) -> Path:
    return write(tmp_path / "drop/a.png", picture(700)[0])


def added(store) -> list[Path]:
    rows = store.query("SELECT path FROM cases WHERE path LIKE '%/added/%' ORDER BY id")
    return [Path(row["path"]) for row in rows]


def lying(store) -> list[Path]:
    return sorted(path for path in store.home.files.rglob("added/*/*") if path.is_file())


def test_add_cases_takes_an_image_once_that_lies_twice_in_a_drop(store, tiny_study, image):
    other = shutil.copy(image, write(image.parent / "again/a.png", picture(701)[0]))
    report = add_cases(store, tiny_study, [image, other], copy=True)
    assert report.accepted == 1 and [r["reason"] for r in report.rejected] == [NAMED]
    assert report.rejected[0]["path"] == str(other) and added(store) == lying(store)


def test_add_cases_names_what_was_added_before(store, tiny_study, image):
    assert add_cases(store, tiny_study, [image], copy=True).accepted == 1
    again = add_cases(store, tiny_study, [image], copy=True)
    assert (again.accepted, again.rejected) == (0, [{"path": str(image), "reason": NAMED}])
    assert len(added(store)) == 1 and added(store)[0].read_bytes() == image.read_bytes()


def test_add_cases_takes_an_image_of_which_a_killed_add_left_half_a_copy(store, tiny_study, image):
    add_cases(store, tiny_study, [image], copy=True)
    store.execute("DELETE FROM cases WHERE path LIKE '%/added/%'")
    lying(store)[0].write_bytes(b"half")
    report = add_cases(store, tiny_study, [image], copy=True)
    assert (report.accepted, report.rejected) == (1, [])
    assert added(store) == lying(store) and added(store)[0].read_bytes() == image.read_bytes()


def test_add_cases_that_fails_leaves_the_copy_of_a_case(store, tiny_study, image, monkeypatch):
    """The copy is there before the second add, which must not take it away again."""
    add_cases(store, tiny_study, [image], copy=True)
    monkeypatch.setattr("core.studio.ingest.studies._insert", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        add_cases(store, tiny_study, [image, write(image.parent / "b.png", picture(702)[0])], copy=True)
    assert added(store) == lying(store) and len(lying(store)) == 1


def test_import_study_of_one_name_by_several_at_once(store, tiny_folder):
    def run() -> str:
        try:
            return import_study(store, "new", tiny_folder, copy=True).study
        except ValueError as error:
            return str(error)
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        answers = [done.result() for done in [pool.submit(run) for _ in range(4)]]
    assert answers.count("new") == 1 and sum("there is already a study" in answer for answer in answers) == 3
    cases = store.query("SELECT path FROM cases WHERE study = 'new'")
    assert len(cases) == 36 and all(Path(case["path"]).is_file() for case in cases)


def test_import_study_clears_what_a_killed_import_of_its_name_left(store, tiny_folder):
    left = write(store.home.files / "new/train/normal/stranger.png", picture(9)[0])
    import_study(store, "new", tiny_folder, copy=True)
    assert not left.exists() and len(list((store.home.files / "new").rglob("*.png"))) == 36


def test_sweep_takes_copies_that_no_case_has(store, tiny_study, image):
    add_cases(store, tiny_study, [image], copy=True)
    left = write(store.home.files / tiny_study / "added/0123456789abcdef/left.png", picture(703)[0])
    assert copies.sweep(store) == ["left.png"] and not left.parent.exists() and added(store) == lying(store)


def test_imports_gives_the_token_of_the_same_import_while_it_runs(store):
    go, calls = threading.Event(), []

    def work(progress):
        calls.append(1)
        go.wait(60)
        return {"study": "s"}

    imports = Imports(store)
    first, again, other = imports.start(work, "a"), imports.start(work, "a"), imports.start(work, "b")
    assert first == again != other
    go.set()
    wait(lambda: imports.state(first)["state"] == imports.state(other)["state"] == "done")
    assert len(calls) == 2 and imports.start(work, "a") != first and "key" not in imports.state(first)


def test_an_import_is_stopped_at_its_next_image(store):
    imports, go, seen = Imports(store), threading.Event(), []

    def work(progress):
        for i in range(1, 4):
            progress(i, 3)
            seen.append(i)
            assert go.wait(60)
        return {"study": "all of it"}

    token = imports.start(work, "one")
    wait(lambda: seen)
    assert imports.state(token)["state"] == "running" and imports.state(token)["done"] == 1
    imports.stop(token)
    go.set()
    wait(lambda: imports.state(token)["state"] == "failed")
    assert "stopped" in imports.state(token)["error"] and seen == [1]
    with pytest.raises(ValueError, match="unknown or too old"):
        imports.stop("another")
