"""No cell of a CSV is a formula to a spreadsheet."""

from __future__ import annotations

import pytest

from app.commands.results import as_csv
from core.studio.review.exports.tables import cell


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
