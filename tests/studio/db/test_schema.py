"""The schema's page holds what the database holds."""

import pytest

from core.studio.db import migrate, schema


def test_the_page_names_every_table_and_column_of_a_database(store):
    page = schema.markdown()
    found = {table.name: [column.name for column in table.columns] for table in schema.tables()}
    mine = {t: list(store.db[t].columns_dict) for t in store.db.table_names() if not t.startswith("_sqlite")}
    assert {t: mine[t] for t in found} == found and set(mine) - set(found) <= {"_sqlite_migrations"}
    assert all(f"## {name}\n" in page for name in found)
    assert all(f"| {step} |" in page for step in migrate.names())


def test_each_column_names_the_migration_that_made_it():
    tables = {table.name: table for table in schema.tables()}
    made = {column.name: column.made for column in tables["cases"].columns}
    assert made["path"] == migrate.BASE and tables["neutral_orders"].made == "0500_neutral_orders"
    assert {c.name: c.made for c in tables["reading_sessions"].columns}["secret"] == "0500_neutral_orders"
    case = {column.name: column for column in tables["reviews"].columns}["case_id"]
    assert case.refers == "cases.id" and case.required and not case.key
    assert "reviews_no_delete" in tables["reviews"].triggers and "jobs_one_running" in tables["jobs"].indexes


@pytest.mark.slow
def test_the_verb_prints_and_writes_it(capsys, tmp_path):
    from app.commands import main

    assert main(["schema"]) == 0
    printed = capsys.readouterr().out
    assert main(["schema", "--out", str(tmp_path / "schema.md")]) == 0
    assert (tmp_path / "schema.md").read_text() == printed and "## readings" in printed
