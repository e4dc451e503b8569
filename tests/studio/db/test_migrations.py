"""A database gets the schema or the steps that are due, each once; older and newer ones are refused."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from app.commands import main
from core.studio.db import backup, migrations, opening
from core.studio.db.backup import BadBackup
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


def contents(home: Home) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}


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


@pytest.fixture
def oldest(tmp_path) -> Home:
    """A home as versions 0.1 and 0.2 wrote it."""
    home = Home.at(tmp_path / "oldest")
    with sqlite3.connect(home.db) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE _sqlite_migrations (id INTEGER, migration_set TEXT, name TEXT)")
        database.execute("CREATE TABLE studies (id TEXT)")
    database.close()
    return home


def test_open_home_of_0_2_is_refused_in_one_sentence_and_left_as_it_is(oldest, capsys):
    before = contents(oldest)
    with pytest.raises(BadHome, match="version 0.2 or older"):
        opening.open(oldest)
    assert main(["jobs", "list", "--home", str(oldest.path)]) != 0
    assert "choose another folder with --home" in capsys.readouterr().err
    assert contents(oldest) == before


def test_open_newer_home_is_refused(home):
    opening.open(home).close()
    with sqlite3.connect(home.db) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(BadHome, match=r"newer version \(schema 99\)"):
        opening.open(home)


def test_restore_backup_of_0_2_is_refused_before_anything_is_replaced(oldest, store):
    store.set_setting("device", "cpu")
    file = shutil.copy(oldest.db, store.home.path / "old.sqlite")
    with pytest.raises(BadBackup, match=r"old\.sqlite.*0\.2"):
        backup.restore(store.home, Path(file))
    assert store.setting("device") == "cpu"


def test_schema_never_gives_an_id_twice(store):
    for table in store.db.table_names():
        plain = [c for c in store.db[table].columns if c.name == "id" and c.type == "INTEGER" and c.is_pk]
        if plain and len(store.db[table].pks) == 1:
            assert "AUTOINCREMENT" in store.db[table].schema, table


def test_tables_are_those_of_a_database(store):
    page = migrations.markdown()
    found = {table.name: [column.name for column in table.columns] for table in migrations.tables()}
    assert found == {t: list(store.db[t].columns_dict) for t in store.db.table_names() if not t.startswith("sqlite_")}
    assert all(f"## {name}\n" in page for name in found)


def test_tables_describe_keys_references_indexes_and_triggers():
    tables = {table.name: table for table in migrations.tables()}
    case = {column.name: column for column in tables["reviews"].columns}["case_id"]
    assert case.refers == "cases.id" and case.required and not case.key
    assert "reviews_no_delete" in tables["reviews"].triggers and "jobs_one_running" in tables["jobs"].indexes


@pytest.mark.slow
def test_schema_verb_prints_and_writes_the_page(capsys, tmp_path):
    from app.commands import main

    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert main(["schema", "--out", str(tmp_path / "schema.md")]) == 0
    assert (tmp_path / "schema.md").read_text() == printed and "## readings" in printed
