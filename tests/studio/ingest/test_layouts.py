import os
import weakref

import numpy as np
import pytest

from core.studio.ingest import reader
from core.studio.ingest.layouts import BadFolder, read_layout
from tests.conftest import picture, write


def kinds(entries):
    return sorted((e.path.name, e.split, e.label, *(mask.name for mask in e.masks)) for e in entries)


def test_plain(tiny_folder):
    layout, entries = read_layout(tiny_folder)
    assert layout == "plain"
    assert len(entries) == 36
    assert ("a003.png", "test", "abnormal", "a003.png") in kinds(entries)
    assert ("t003.png", "test", "normal") in kinds(entries)


def test_plain_masks_without_an_image_are_named(tiny_folder):
    write(tiny_folder / "test/mask/nobody.png", np.ones((4, 4), np.uint8))
    problems = [e for e in read_layout(tiny_folder)[1] if e.problem]
    assert [e.path.name for e in problems] == ["nobody.png"]


def test_plain_takes_unknown_test_images(tiny_folder):
    write(tiny_folder / "test/unknown/u.png", picture(5)[0])
    assert ("u.png", "test", "unknown") in kinds(read_layout(tiny_folder)[1])


def test_mvtec(tmp_path):
    image = picture(0)[0]
    for name in ("train/good/000", "test/good/000", "test/hole/000", "test/scratch/001"):
        write(tmp_path / f"{name}.png", image)
    write(tmp_path / "ground_truth/hole/000_mask.png", image[..., 0])
    layout, entries = read_layout(tmp_path)
    assert layout == "mvtec"
    assert kinds(entries) == [
        ("000.png", "test", "abnormal", "000_mask.png"),
        ("000.png", "test", "normal"),
        ("000.png", "train", "normal"),
        ("001.png", "test", "abnormal"),
    ]
    assert {e.tags for e in entries} == {(), ("hole",), ("scratch",)}


@pytest.mark.parametrize("masks", [True, False], ids=["brain", "histopathology"])
def test_bmad(tmp_path, masks):
    """As its README draws the two shapes: with img and label below, and images alone."""
    inner = "img/" if masks else ""
    places = ("train/good", "valid/good", "valid/Ungood", "test/good", "test/Ungood")
    for number, place in enumerate(places):
        write(tmp_path / f"{place}/{inner}0000{number}_60.png", picture(number)[0])
    if masks:
        for name in ("valid/Ungood/label/00002_60", "test/Ungood/label/00004_60", "test/Ungood/label/00009_60"):
            write(tmp_path / f"{name}.png", picture(0)[0][..., 0])
    layout, entries = read_layout(tmp_path)
    assert layout == "bmad"
    assert kinds(e for e in entries if not e.problem) == [
        ("00000_60.png", "train", "normal"),
        ("00001_60.png", "holdout", "normal"),
        ("00003_60.png", "test", "normal"),
        ("00004_60.png", "test", "abnormal", *(["00004_60.png"] if masks else [])),
    ]
    problems = {e.path.name: e.problem for e in entries if e.problem}
    assert list(problems) == ["00002_60.png", *(["00009_60.png"] if masks else [])]
    assert "test has its own" in problems["00002_60.png"], "nothing is chosen by lesions of the validation split"


def test_flat(tmp_path):
    for name in ("b.png", "a.png", "patient 1/c.png", ".hidden.png", "notes.txt"):
        write(tmp_path / name, picture(0)[0]) if name.endswith("png") else (tmp_path / name).write_text("x")
    layout, entries = read_layout(tmp_path)
    assert layout == "flat"
    assert [(e.path.name, e.split, e.label) for e in entries] == [
        ("a.png", "train", "normal"), ("b.png", "train", "normal"), ("c.png", "train", "normal"),
    ]  # fmt: skip


TABLE = """path,split,label,mask
a.png,train,,
b.png,val,normal,
c.png,test,abnormal,m.png
d.png,test,1,
e.png,test,,
f.png,moon,normal,
g.png,train,abnormal,
h.png,test,purple,
,test,normal,
"""


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_table(tmp_path, start):
    (tmp_path / "list.csv").write_text(start + TABLE, encoding="utf-8")
    for where in (tmp_path, tmp_path / "list.csv"):
        layout, entries = read_layout(where)
        assert layout == "table"
        good = [e for e in entries if not e.problem]
        assert [(e.path.name, e.group, e.doubt) for e in good if e.doubt] == [
            ("a.png", "label (empty)", "the label is empty")
        ]
        assert kinds(good) == [
            ("a.png", "train", ""), ("b.png", "holdout", "normal"),
            ("c.png", "test", "abnormal", "m.png"), ("d.png", "test", "abnormal"),
            ("e.png", "test", "unknown"), ("h.png", "test", "abnormal"),
        ]  # fmt: skip
        reasons = [e.problem for e in entries if e.problem]
        assert [r.split(":")[0].split(" of")[0] for r in reasons] == ["line 7", "line 8", "line 10 has no path"]


@pytest.mark.parametrize("names", [("0",), ("1", "2"), ("ward0", "ward1"), ("p_01", "p_02", "p_17"), ("A-3", "A-4")])
@pytest.mark.parametrize("above", ["train/normal", "normal", "train", "abnormal", ""])
def test_numbered_folders_are_no_classes_inside_one_that_is_called_normal(tmp_path, above, names):
    for name in names:
        write(tmp_path / above / name / "a.png", picture(1)[0])
    _, entries = read_layout(tmp_path)
    labels = {entry.label if not entry.doubt else "asked" for entry in entries}
    called = above.rpartition("/")[2]
    assert labels == {called if called in ("normal", "abnormal") else "asked"}


def test_a_missing_an_empty_and_an_unknown_layout_say_what_to_do(tmp_path):
    with pytest.raises(BadFolder, match="does not exist"):
        read_layout(tmp_path / "nowhere")
    with pytest.raises(BadFolder, match="expected train/normal"):
        read_layout(tmp_path)
    with pytest.raises(BadFolder, match="choose from: table, flat, plain, loco, bmad, mvtec"):
        read_layout(tmp_path, "spiral")


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"path,split\n" + b"x" * 200_000 + b",train\n", "not a readable table"),
        (b"path,split\n" + b"a.png,train\n" * 9000 + b"\xff\xfe,train\n", "save it as UTF-8"),
    ],
)
def test_a_table_that_cannot_be_read_is_a_sentence(tmp_path, content, sentence):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(BadFolder, match=sentence):
        list(read_layout(tmp_path, "table")[1])


def test_a_path_that_no_file_can_have_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("path,split\n" + "x" * 5000 + ",train\n")
    (entry,) = read_layout(tmp_path, "table")[1]
    assert "line 2" in entry.problem


@pytest.mark.slow
def test_a_long_table_is_streamed(tmp_path):
    """20,000 lines of files that are not there; each of them waited in memory before, for the last one.

    Entries are counted, not bytes: CPython's table of interned strings, which names of files enter, grows by many
    megabytes at once in a process that has lived long.
    """
    table, living, most = tmp_path / "t.csv", weakref.WeakSet(), 0
    with table.open("w") as out:
        out.write("path,split,label\n")
        out.writelines(f"images/n{i:07d}.png,elsewhere,normal\n" for i in range(20_000))
    lines = read_layout(table)[1]

    class Counted:
        def __len__(self):
            return len(lines)

        def __iter__(self):
            nonlocal most
            for entry in lines:
                living.add(entry)
                most = max(most, len(living))
                yield entry

    found, rejected = reader.read_all(Counted(), None)
    assert found == [] and len(rejected) == reader.MOST_NAMED + 1
    assert rejected[-1]["path"] == f"and {20_000 - reader.MOST_NAMED} more"
    assert most <= reader.AHEAD * (os.cpu_count() or 1) + 10
