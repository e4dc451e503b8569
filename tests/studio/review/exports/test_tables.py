"""The table of decisions, read back by csv: what counts, and no names."""

import csv

from core.studio.db import audit
from core.studio.review.exports.tables import export_csv
from tests.studio.review.conftest import decide


def test_csv_holds_what_counts_and_no_names(room, tmp_path):
    store, run = room
    a, b = store.query("SELECT * FROM cases WHERE split = 'test' ORDER BY id LIMIT 2")
    decide(store, a["id"], "Dr Ann", "normal", run=run)
    decide(store, a["id"], "Dr Ann", "abnormal", comment='=1+1, "so"\nit is', run=run, seconds=3)
    decide(store, b["id"], "Dr Ann", "unsure")
    export_csv(store, "room", tmp_path / "out.csv", "root", run=run)
    text = (tmp_path / "out.csv").read_text()
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    assert [r["decision"] for r in rows] == ["abnormal", "unsure"] and rows[0]["comment"] == '\'=1+1, "so"\nit is'
    reading = store.one("SELECT * FROM readings WHERE case_id = ?", [b["id"]])
    assert float(rows[1]["score"]) == reading["score_roi"]
    assert "Ann" not in text and a["name"].split(".")[0] not in text and rows[0]["reader"] == rows[1]["reader"]
    export_csv(store, "room", tmp_path / "named.csv", "root", keep_names=True)
    named = list(csv.DictReader((tmp_path / "named.csv").open(newline="")))
    assert named[0]["reader"] == "Dr Ann" and named[0]["case"] == a["name"].rsplit(".", 1)[0]
    assert rows[0]["created"] != named[0]["created"]
    assert [e["kind"] for e in audit.trail(store, limit=2)] == ["export", "export"]
