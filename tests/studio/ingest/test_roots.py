"""What a folder, a CSV or a link names must lie in the folders that were named, and nothing is told of the rest."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from core.studio.ingest.layouts import OUTSIDE, BadFolder, read_layout
from core.studio.ingest.roots import Within
from core.studio.ingest.studies import add_cases, import_study
from tests.conftest import picture, write


@pytest.fixture
def places(tmp_path):
    """A named root with two images, and a folder outside with one."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for name in ("a", "b"):
        write(root / "images" / f"{name}.png", picture(1)[0])
    write(outside / "secret.png", picture(2)[0])
    return root, outside


def table(root: Path, *rows: tuple) -> Path:
    file = root / "study.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("path", "split", "label", "mask"), *rows])
    return file


def test_a_csv_names_files_of_the_roots_alone(places):
    root, outside = places
    there, absent = str(outside / "secret.png"), str(outside / "absent.png")
    file = table(
        root,
        ("images/a.png", "train", "normal", ""),
        (there, "train", "normal", ""),
        (absent, "train", "normal", ""),
        ("../outside/secret.png", "train", "normal", ""),
        ("../outside/absent.png", "train", "normal", ""),
        ("images/b.png", "test", "abnormal", there),
        ("images/b.png", "test", "abnormal", absent),
    )
    entries = list(read_layout(file, within=Within([root]))[1])
    assert [e.path.name for e in entries if not e.problem] == ["a.png"]
    reasons = {str(e.path): e.problem for e in entries if e.problem}
    assert reasons[there] == reasons[absent] == OUTSIDE
    assert reasons[str(root / "../outside/secret.png")] == reasons[str(root / "../outside/absent.png")] == OUTSIDE
    assert reasons[str(root / "images/b.png")] == f"its mask cannot be read: {OUTSIDE}"
    assert len([e for e in read_layout(file)[1] if e.problem]) == 0, "the owner of the machine may name any file"


def test_a_csv_may_name_another_named_root(places):
    root, outside = places
    file = table(root, (str(outside / "secret.png"), "train", "normal", ""))
    assert [e.problem for e in read_layout(file, within=Within([root, outside]))[1]] == [None]


@pytest.mark.parametrize("linked", ["file", "folder"])
@pytest.mark.parametrize("layout", ["flat", "plain", "mvtec", "bmad"])
def test_no_layout_follows_a_link_that_leads_out(places, layout, linked):
    root, outside = places
    for number in range(3):
        write(outside / f"more{number}.png", picture(3)[0])
    train = {"flat": "images", "plain": "train/normal", "mvtec": "train/good", "bmad": "train/good"}[layout]
    if layout == "bmad":
        write(root / "test/Ungood/u.png", picture(4)[0])
    write(root / train / "own.png", picture(1)[0])
    if linked == "file":
        (root / train / "link.png").symlink_to(outside / "secret.png")
    else:
        (root / train / "own.png").unlink()
        for file in (root / train).iterdir():
            file.unlink()
        (root / train).rmdir()
        (root / train).symlink_to(outside)
    folder = root / "images" if layout == "flat" else root
    problems = [e for e in read_layout(folder, layout, Within([root]))[1] if e.problem]
    assert [str(e.path) for e in problems] == [str(root / train / "link.png" if linked == "file" else root / train)]
    assert problems[0].problem == OUTSIDE
    assert not any(str(outside) in str(e) for e in problems)


def test_a_mask_that_is_a_link_out_is_refused(places):
    root, outside = places
    for place in ("train/normal/t", "test/abnormal/a"):
        write(root / f"{place}.png", picture(1)[0])
    (root / "test/mask").mkdir()
    (root / "test/mask/a.png").symlink_to(outside / "secret.png")
    problems = [e.problem for e in read_layout(root, "plain", Within([root]))[1] if e.problem]
    assert problems == [f"its mask cannot be read: {OUTSIDE}"]


def test_a_linked_table_is_not_read(places):
    root, outside = places
    (root / "images/linked.csv").symlink_to(table(outside, ("secret.png", "train", "normal", "")))
    with pytest.raises(BadFolder, match=r"linked\.csv"):
        read_layout(root / "images", within=Within([root]))


def test_an_import_brings_in_what_lies_within_and_names_the_rest(places, store):
    root, outside = places
    (root / "images/link.png").symlink_to(outside / "secret.png")
    (root / "images/loop.png").symlink_to(root / "images/loop.png")
    report = import_study(store, "s", root / "images", within=Within([root]))
    assert report.accepted == 2
    assert sorted(Path(r["path"]).name for r in report.rejected) == ["link.png", "loop.png"]
    more = add_cases(store, "s", [root / "images/link.png", outside / "secret.png"], within=Within([root]))
    assert more.accepted == 0 and len(more.rejected) == 2
    assert not store.query("SELECT 1 FROM cases WHERE path LIKE '%secret%' OR path LIKE '%link%'")


def test_within_follows_links_of_the_roots_themselves(places, tmp_path):
    root, _ = places
    (tmp_path / "alias").symlink_to(root)
    assert Within([tmp_path / "alias"]).holds(root / "images/a.png")
    assert Within([root]).holds(tmp_path / "alias" / "images" / "a.png")
    assert not Within([root]).holds(root / "images" / ".." / ".." / "outside" / "secret.png")
    assert not Within([]).holds(root)
    assert os.path.exists("/etc/passwd") and Within(None).holds(Path("/etc/passwd"))
