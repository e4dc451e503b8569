"""The table of decisions, read back by csv: what counts, no names, and no cell that a spreadsheet runs."""

import csv

import pytest

from app.commands.results import as_csv
from core.studio.db import audit
from core.studio.review.decisions import add_finding
from core.studio.review.exports.formats import write_form
from core.studio.review.exports.tables import cell, export_csv
from tests.studio.review.conftest import asks, decide


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
    assert [r["number"] for r in rows] == [r["number"] for r in named] == [str(a["id"]), str(b["id"])]
    assert [e["kind"] for e in audit.trail(store, limit=2)] == ["export", "export"]


def test_findings_and_tags_leave_with_the_numbers_of_the_page(room, tmp_path):
    """Of images that are no DICOM files, decided or not."""
    store, run = room
    a, b, c = store.query("SELECT * FROM cases WHERE split = 'test' ORDER BY id LIMIT 3")
    decide(store, a["id"], "Dr Ann", "abnormal", run=run)
    wanted = [("case", "polyp", None), ("point", "ulcer", (4, 5, 4, 5)), ("box", "-polyp", (1, 2, 30, 20))]
    for _, label, box in wanted:
        add_finding(asks(store, case_id=a["id"], reader="Dr Ann"), label, "seen", box=box)
    store.execute("UPDATE cases SET tags = ? WHERE id = ?", ['["teach", "again"]', b["id"]])
    out = tmp_path / "findings.csv"
    assert write_form(store, "room", "findings", out, "root")["rows"] == 5
    rows = list(csv.DictReader(out.open(newline="", encoding="utf-8")))
    assert [(r["number"], r["kind"], r["label"].lstrip("'")) for r in rows] == [
        *((str(a["id"]), kind, label) for kind, label, _ in wanted),
        (str(b["id"]), "tag", "teach"), (str(b["id"]), "tag", "again"),
    ]  # fmt: skip
    corners = [[float(r[k]) for k in ("x0", "y0", "x1", "y1")] for r in rows[1:3]]
    assert corners == [list(map(float, box)) for _, _, box in wanted[1:]]
    assert "Ann" not in out.read_text() and rows[2]["label"] == "'-polyp", "no formula, no name"
    write_form(store, "room", "scores", tmp_path / "scores.csv", "root")
    scores = list(csv.DictReader((tmp_path / "scores.csv").open(newline="", encoding="utf-8")))
    assert {r["number"]: r["tags"] for r in scores}[str(b["id"])] == "teach; again"
    assert str(c["id"]) in {r["number"] for r in scores}


@pytest.mark.parametrize("start", ["", "\n", "\r\n", " ", "\t", "\n\n  ", "\u00a0", "\ufeff"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d"])
def test_formulas_are_quoted_whatever_stands_before_them(start, sign):
    assert cell(f"{start}{sign}1+1") == f"'{start}{sign}1+1"


def test_all_else_stays_as_it_is():
    for value in ("", "text", " text", "a=b", "a\n=b", None, 3, -3, -0.5):
        assert cell(value) == value
    assert cell("\ntext") == "'\ntext"


def test_a_runs_name_is_no_formula_in_what_evaluate_prints():
    rows = [{"run": "\n=1+1", "auroc": (0.5, 0.75), "dice": -0.5}]
    assert as_csv(rows) == 'run,auroc_low,auroc_high,dice\n"\'\n=1+1",0.5,0.75,-0.5'
