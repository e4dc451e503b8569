"""The report as CSV, one row per cell, and as LaTeX tables."""

from __future__ import annotations

import csv
import io
from typing import Any

from core.studio.report.cells import Cell
from core.studio.report.summary import HEADS, Line
from core.studio.report.tables import Table
from core.studio.review.exports.tables import cell as quoted

METRICS = (*HEADS, "ap", "pixel_auroc")
_COLUMNS = ("table", "row", "seed", "protocol", "roi", *METRICS, "seconds", "memory", "collapsed", "fit", "encoder")


def csv_of(tables: list[Table], cells: dict[str, list[Cell]]) -> str:
    """Returns the cells as CSV: a line per table, row, seed, protocol and region of interest, with errors."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow([*_COLUMNS, "error"])
    for table in tables:
        for cell in cells[table.name]:
            end = [cell.seconds, cell.memory, int(cell.collapsed), cell.fit, cell.encoder, cell.error]
            for (protocol, roi), row in cell.rows.items() or [(("", ""), {})]:
                start = [table.name, cell.label, cell.seed, protocol, int(bool(roi))]
                out.writerow([quoted(v) for v in (*start, *(row.get(metric) for metric in METRICS), *end)])
    return text.getvalue()


def latex(head: dict[str, Any], tables: list[Table], views: list[dict[str, Any]]) -> str:
    """Returns booktabs tables of mean and standard deviation, with the paper's number in brackets."""
    sections = [f"% {head['study']}, budget {head['budget']}, seeds {head['seeds']}, {head['size']} pixels"]
    network = f"{_plain(head['network'])} * marks rows that do not use ImageNet's weights."
    for table in tables:
        for view in views:
            heads = " & ".join(HEADS[m] for m in table.metrics)
            where = "inside the region of interest" if view["roi"] else "whole images"
            rows = [
                " & ".join([_plain(line.label) + "*" * line.starred, *(_cell(line, m) for m in table.metrics)]) + r" \\"
                for line in view["lines"][table.name]
            ]
            caption = (
                f"{_plain(table.title)} on {_plain(head['study'])}, {where}: ours over {len(head['seeds'])} seeds, "
                f"the published number ({_plain(head['dataset'])}) in brackets. {network}"
            )
            columns = "l" + "c" * len(table.metrics)
            sections.append(
                "\n".join([
                    r"\begin{table}[t]", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule",
                    rf"Method & {heads} \\", r"\midrule", *rows, r"\bottomrule", r"\end{tabular}",
                    rf"\caption{{{caption}}}", r"\end{table}",
                ])
            )  # fmt: skip
    return "\n\n".join(sections) + "\n"


def _cell(line: Line, metric: str) -> str:
    if metric not in line.values:
        ours = "--"
    else:
        mean, deviation = line.values[metric]
        ours = f"{mean:.3f}" + ("" if deviation is None else rf" $\pm$ {deviation:.3f}")
    return ours + (f" ({line.paper[metric]:.3f}{'*' * line.paper_starred})" if metric in line.paper else "")


def _plain(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, rf"\{sign}")
    return text
