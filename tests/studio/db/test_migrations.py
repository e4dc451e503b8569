"""A database gets the schema or the steps that are due, each once; older and newer ones are refused."""

from __future__ import annotations

import sqlite3

import pytest

from core.studio.db import backup, migrations, opening
from core.studio.db.home import BadHome, Home


@pytest.fixture
def first(monkeypatch):
    """No step yet: version 1."""
    monkeypatch.setattr(migrations, "STEPS", {})


@pytest.fixture
def later(first):
    """Two steps of later versions: one adds a table, one fills it from the version before."""

    @migrations.step(2)
    def add(conn):
        conn.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL)")

    @migrations.step(3)
    def fill(conn):
        conn.execute("INSERT INTO notes (text) SELECT value FROM settings")

    return fill


def version(home: Home) -> int:
    with sqlite3.connect(home.db) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def test_migrate_new_home_has_the_schema_and_its_version(home):
    opening.open(home).close()
    assert version(home) == migrations.latest()
    assert not home.backups.exists(), "a new home has nothing to lose"


def test_migrate_applies_the_steps_that_are_due_once_after_a_backup(home, first, request):
    old = opening.open(home)
    old.set_setting("device", "cpu")
    old.close()
    request.getfixturevalue("later")
    for _ in range(2):
        new = opening.open(home)
        assert new.query("SELECT id, text FROM notes") == [{"id": 1, "text": '"cpu"'}] and version(home) == 3
        new.close()
    (made,) = backup.backups(home.backups)
    assert made.file.startswith(backup.BEFORE) and made.version == 1


def test_migrate_step_that_fails_changes_nothing(home, first, request, monkeypatch):
    opening.open(home).close()
    request.getfixturevalue("later")

    def fail(conn):
        conn.execute("CREATE TABLE more (id INTEGER)")
        raise ZeroDivisionError

    monkeypatch.setitem(migrations.STEPS, 3, fail)
    with pytest.raises(ZeroDivisionError):
        opening.open(home)
    with sqlite3.connect(home.db) as db:
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name IN ('notes', 'more')").fetchall()
    assert version(home) == 1


def test_a_home_of_version_1_gets_what_a_new_one_has(home):
    objects = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    store = opening.open(home)
    new = store.query(objects)
    store.execute("DROP TABLE matches")  # which came with version 2
    store.execute("PRAGMA user_version = 1")
    store.close()
    store = opening.open(home)
    assert store.query(objects) == new and version(home) == migrations.latest()
    store.close()


def test_step_must_follow_the_one_before(later):
    with pytest.raises(ValueError, match="step 5 does not follow version 3"):
        migrations.step(5)(later)


def test_open_newer_home_is_refused(home):
    opening.open(home).close()
    with sqlite3.connect(home.db) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(BadHome, match=r"newer version \(schema 99\)"):
        opening.open(home)


def test_schema_never_gives_an_id_twice(store):
    for table in store.db.table_names():
        plain = [c for c in store.db[table].columns if c.name == "id" and c.type == "INTEGER" and c.is_pk]
        if plain and len(store.db[table].pks) == 1:
            assert "AUTOINCREMENT" in store.db[table].schema, table
