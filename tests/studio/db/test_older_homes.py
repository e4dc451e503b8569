"""Homes of version 0.2 are recognised as the base; those of 0.1 are refused and stay as they are."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from app.commands import main
from core.studio.db import backup, migrate, opening, restore
from core.studio.db.backup import BadBackup
from core.studio.db.home import BadHome, Home
from core.studio.db.store import Store
from tests.home_0_2 import unpacked


@pytest.fixture
def oldest(tmp_path) -> Home:
    """A home whose database 0.1.0 wrote."""
    home = Home.at(tmp_path / "oldest")
    text = Path(__file__).with_name("home_0_1.sql").read_text("utf-8")
    database = sqlite3.connect(home.db)
    database.execute("PRAGMA journal_mode=WAL")
    database.executescript(text.replace("{home}", str(home.path)))
    database.close()
    return home


def schema(store: Store) -> set[str]:
    """Each statement that made a table, index or trigger, however it is spaced, with its columns in any order."""
    statements = store.query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '%sqlite_%'")
    plain = [re.sub(r"\s*([(),])\s*", r"\1", " ".join(row["sql"].split())) for row in statements]
    return {re.sub(r'(?<=TABLE )"(\w+)"', r"\1", statement) for statement in plain}


def contents(home: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_home_of_0_2_has_the_tables_of_a_new_one(tmp_path, home):
    old, new = opening.open(Home(unpacked(tmp_path).home)), opening.open(home)
    assert schema(old) == schema(new) and len(schema(new)) > 80
    recorded = [row["name"] for row in old.query("SELECT name FROM _sqlite_migrations ORDER BY id")]
    assert recorded[0] == "0001_first_tables" and set(migrate.names()) <= set(recorded)
    (copy,) = backup.backups(old.home.backups)
    assert migrate.newer(copy.migrations) == [] and migrate.BASE not in copy.migrations
    restore.restore(old.home, old.home.backups / copy.file)
    assert migrate.BASE in {row["name"] for row in opening.open(old.home).query("SELECT name FROM _sqlite_migrations")}
    old.close()
    new.close()


def test_a_home_of_0_1_is_refused_with_the_version_that_opens_it_and_left_as_it_is(oldest, capsys):
    before = contents(oldest)
    with pytest.raises(BadHome, match=r"PMSACL Studio 0\.2\.0"):
        opening.open(oldest)
    assert contents(oldest) == before
    assert main(["jobs", "list", "--home", str(oldest.path)]) != 0
    assert "open it once with PMSACL Studio 0.2.0" in capsys.readouterr().err
    assert contents(oldest) == before


def test_a_backup_of_0_1_is_refused_before_anything_is_replaced(oldest, store):
    store.set_setting("device", "cpu")
    file = shutil.copy(oldest.db, store.home.path / "old.sqlite")
    with pytest.raises(BadBackup, match=r"old\.sqlite.*0\.2\.0"):
        restore.restore(store.home, Path(file))
    assert store.setting("device") == "cpu"
