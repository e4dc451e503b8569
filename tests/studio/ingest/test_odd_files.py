"""Files that decode and yet are no picture, and names that are shown as others, are named at the import."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from core.studio.db.home import Home
from core.studio.ingest import uploads
from core.studio.ingest.background import Imports
from core.studio.ingest.reader import printable
from core.studio.ingest.studies import import_study
from tests.conftest import picture, wait, write


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        write(tmp_path / "images" / f"{number}.png", picture(number)[0])
    return tmp_path / "images"


def test_values_that_are_no_numbers(store, folder):
    Image.fromarray(np.full((32, 32), np.nan, np.float32)).save(folder / "nan.tif")
    some = np.linspace(0, 1, 32 * 32, dtype=np.float32).reshape(32, 32)
    some[0, 0] = np.nan
    Image.fromarray(some).save(folder / "some.tif")
    report = import_study(store, "s", folder)
    assert [(r["path"].rpartition("/")[2], "NaN" in r["reason"]) for r in report.rejected] == [("nan.tif", True)]
    assert report.accepted == 4


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (7, 64)])
def test_what_is_too_small(store, folder, shape):
    write(folder / "dot.png", np.zeros((*shape, 3), np.uint8))
    write(folder / "small.png", picture(9, (8, 8))[0])
    report = import_study(store, "s", folder)
    assert report.accepted == 4
    assert [f"{shape[1]} x {shape[0]} pixels" in r["reason"] for r in report.rejected] == [True]


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f"])
def test_names_that_are_shown_as_others(store, folder, mark):
    write(folder / f"a{mark}gpj.png", picture(5)[0])
    report = import_study(store, "s", folder)
    assert report.accepted == 3 and "direction" in report.rejected[0]["reason"]
    assert mark not in report.rejected[0]["path"]
    assert printable(f"x{mark}\u2028y") == "x  y"


def drop(home: Home, members: dict[str, bytes]) -> str:
    token = uploads.new_drop(home)
    with zipfile.ZipFile(uploads.place(home, token, "in.zip"), "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return token


def test_a_zip_that_cannot_be_unpacked_shows_no_path_of_the_server(store):
    data = io.BytesIO()
    Image.new("RGB", (32, 32)).save(data, "PNG")
    hostile = [
        {"a": b"x", "a/b.png": b"x"},
        {"a/b.png": b"x", "a": b"x"},
        {"x" * 300: b"x"},
        {"/".join(["d" * 200] * 30): b"x"},
        {"../out.png": b"x"},
        {"a.png": b"no picture"},
        {"notes.txt": b"nothing"},
    ]
    for members in hostile:
        token = drop(store.home, members)

        def work(progress, token=token):
            try:
                uploads.unpack(store.home, token)
                return import_study(store, "s", uploads.root_of(store.home, token), True).to_dict()
            except ValueError as error:
                raise ValueError(uploads.shown(store.home, token, str(error))) from None

        imports = Imports(store)
        task = imports.start(work, "one")
        wait(lambda imports=imports, task=task: imports.state(task)["state"] != "running")
        state = imports.state(task)
        assert state["state"] == "failed" and str(store.home.path) not in state["error"], (list(members), state)


def test_an_error_of_the_system_shows_no_path_either(store):
    def work(progress):
        raise OSError(28, "No space left on device", f"{store.home.path}/files/a.png")

    imports = Imports(store)
    task = imports.start(work, "one")
    wait(lambda: imports.state(task)["state"] == "failed")
    assert imports.state(task)["error"] == "No space left on device: a.png"
