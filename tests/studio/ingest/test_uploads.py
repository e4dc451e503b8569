"""Dropped files: names stay inside, zips unpack, tokens cannot be guessed at."""

import zipfile

import pytest

from core.studio.ingest import uploads as dropped


@pytest.mark.parametrize("name", ["../out.png", "a/../../out.png", "..\\out.png", "", "/", "a" * 300])
def test_names_that_lead_out_are_refused(home, name):
    token = dropped.new_drop(home)
    with pytest.raises(dropped.BadDrop):
        dropped.place(home, token, name)


def test_what_could_not_be_placed_counts_by_the_folders_that_it_left(home, monkeypatch):
    token, arriving = dropped.new_drop(home), dropped.Arriving(home)

    def fail(*given):
        (dropped.drop_folder(home, token) / "a").mkdir()
        raise OSError("no space")

    monkeypatch.setattr(dropped, "place", fail)
    with pytest.raises(OSError, match="no space"):
        arriving.place(token, "a/b/c.png", True)
    assert arriving._of(token) == [*dropped.size(home, token)] == [0, 1]


def test_absolute_names_land_inside(home):
    token = dropped.new_drop(home)
    assert dropped.place(home, token, "/etc/x.png").is_relative_to(dropped.drop_folder(home, token))


@pytest.mark.parametrize("token", ["", "..", "../..", "0" * 31, "g" * 32, "0" * 32])
def test_unknown_tokens_are_refused(home, token):
    with pytest.raises(dropped.BadDrop, match="drop them again"):
        dropped.drop_folder(home, token)


def test_a_zip_unpacks_and_its_single_folder_is_the_root(home, tmp_path):
    token = dropped.new_drop(home)
    with zipfile.ZipFile(dropped.place(home, token, "colon.zip"), "w") as archive:
        archive.writestr("colon/train/normal/a.png", b"x")
        archive.writestr("colon/test/normal/b.png", b"x")
        archive.writestr("__MACOSX/colon/._a.png", b"x")
    assert dropped.unpack(home, token) == 2
    assert dropped.root_of(home, token).name == "colon"
    dropped.discard(home, token)
    with pytest.raises(dropped.BadDrop):
        dropped.root_of(home, token)


def test_a_zip_that_leads_out_or_is_none_is_refused(home):
    token = dropped.new_drop(home)
    with zipfile.ZipFile(dropped.place(home, token, "bad.zip"), "w") as archive:
        archive.writestr("../../bad.png", b"x")
    with pytest.raises(dropped.BadDrop):
        dropped.unpack(home, token)
    token = dropped.new_drop(home)
    dropped.place(home, token, "no.zip").write_bytes(b"not a zip")
    with pytest.raises(dropped.BadDrop, match="cannot be unpacked"):
        dropped.unpack(home, token)


def test_a_member_without_a_name_is_refused(home):
    token = dropped.new_drop(home)
    with zipfile.ZipFile(dropped.place(home, token, "images.zip"), "w") as archive:
        archive.writestr("a", b"1")
        archive.infolist()[0].filename = ""  # as the archive's table of contents names it
    with pytest.raises(dropped.BadDrop, match="not a valid file name"):
        dropped.unpack(home, token)
