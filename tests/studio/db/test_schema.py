"""The schema's page holds what the database holds."""

import pytest

from core.studio.db import migrations


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
