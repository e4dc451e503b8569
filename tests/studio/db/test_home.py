"""A home is its owner's: other accounts of the machine cannot read it, and one that was deleted stays so."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading

import pytest

from core.studio.db import opening
from core.studio.db.backup import backup
from core.studio.db.home import Home


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_new_home_is_closed_to_others(tmp_path):
    (tmp_path / "given").mkdir()
    for home in (Home.at(tmp_path / "a" / "home"), Home.at(tmp_path / "given")):
        store = opening.open(home)
        store.set_setting("x", 1)
        assert mode(home.path) == 0o700
        for file in home.path.glob("studio.sqlite*"):
            assert mode(file) == 0o600, file
        assert mode(home.backups / backup(home).file) == 0o600
        store.close()
    assert mode(tmp_path / "a") == 0o755


def test_a_home_of_before_is_closed_when_it_is_opened(tmp_path):
    home = Home.at(tmp_path / "home")
    opening.open(home).close()
    home.path.chmod(0o755)
    home.db.chmod(0o644)
    Home.at(home.path)
    assert (mode(home.path), mode(home.db)) == (0o700, 0o600)


def test_a_folder_that_is_something_else_keeps_its_rights(tmp_path):
    (tmp_path / "full").mkdir(mode=0o755)
    (tmp_path / "full" / "other.txt").write_text("x")
    Home.at(tmp_path / "full")
    assert mode(tmp_path / "full") == 0o755
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    opening.open(Home.at(tmp_path / "shared")).close()
    Home.at(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o1777 and mode(tmp_path / "shared" / "studio.sqlite") == 0o600


def test_a_home_that_was_deleted_is_not_made_anew(tmp_path):
    store = opening.open(Home.at(tmp_path / "home"))
    for file in store.home.path.glob("studio.sqlite*"):
        file.unlink()
    failed = []

    def other() -> None:
        try:
            store.set_setting("x", 1)
        except sqlite3.OperationalError as error:
            failed.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert failed == ["unable to open database file"] and not store.home.db.exists()
    shutil.rmtree(store.home.path)
    store.close()
    assert not store.home.path.exists()
