"""The report as a self-contained HTML page without scripts."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from core.studio.report.claims import Claim
from core.studio.report.comparators import HEADS as HEADINGS
from core.studio.report.comparators import compared
from core.studio.report.summary import HEADS, Line
from core.studio.report.tables import Table

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; color: #1c2126 }
table { border-collapse: collapse; margin: .6rem 0 1.6rem } caption { text-align: left; color: #59636e }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e3e7eb; white-space: nowrap }
th:first-child, td:first-child, .text { text-align: left; white-space: normal }
thead th { border-bottom: 2px solid #8893a0 } td small { color: #59636e; display: block }
.missing { color: #9a3412 } img { max-width: 100% } .holds { color: #166534 }
@media (prefers-color-scheme: dark) { body { background: #14171a; color: #e6e9ec } td small, caption { color: #9aa5b1 }
th, td { border-color: #2b3138 } .missing { color: #fdba74 } .holds { color: #86efac } }
"""
PROTOCOLS = {
    "paper": "Thresholds are from 50 normal and 50 abnormal test images, which stay in the test set, as in the paper; "
    "the pixel threshold has the best Dice on such a sample. Both are optimistic.",
    "held-out": "Thresholds are from held-out normal images only; no test image is used.",
}
STARS = (
    "* marks, as in the paper, rows that do not use ImageNet's weights. The paper only marks DAE, OCGAN and ADGAN on "
    "Liu et al.'s colonoscopy set, and neither CCD nor PMSACL: whether its PMSACL started from ImageNet's weights is "
    "unknown. PaDiM, IGD, PANDA, CutPaste and the row ImageNet use the initial network, without pre-training here."
)


def page(facts: dict[str, Any], tables: list[Table], views: list[dict[str, Any]], pictures: dict[str, bytes]) -> str:
    """Returns the report's page.

    facts: the settings of the report. views: without and with the region of interest, {"roi", "lines", "claims"} each.
    """
    seeds = facts["seeds"]
    paper_numbers = f"the paper's on {facts['dataset']}"
    if not facts["own_dataset"]:
        paper_numbers += ", other images than these"
    body = [
        f"<h1>The paper's tables on {escape(facts['study'])}</h1>",
        f"<p>Budget {escape(facts['budget'])}, images of {facts['size']} pixels, {len(seeds)} seeds "
        f"({', '.join(map(str, seeds))}), made {escape(str(facts['made']))}. Each cell: mean ± standard deviation over "
        f"seeds, the first seed's 95 % interval over test images, and {escape(paper_numbers)}.</p>",
        f"<p>{escape(facts['network'])} {escape(STARS)}</p>",
        f"<p>{escape(PROTOCOLS[facts['protocol']])}</p>",
    ]
    for table in tables:
        body.append(f'<h2 id="{table.name}">{escape(table.title)}</h2>')
        for view in views:
            where = "Inside the region of interest" if view["roi"] else "Whole images"
            body += [_table(table, view["lines"][table.name], where)]
            body += [_claims([c for c in view["claims"] if c.table == table.name], where)]
    if facts["budget"] == "paper":
        body.append(_comparators())
    for caption, png in pictures.items():
        data = base64.b64encode(png).decode()
        body.append(f'<h2>{escape(caption)}</h2>\n<img alt="{escape(caption)}" src="data:image/png;base64,{data}">')
    head = f'<meta charset="utf-8"><title>Report: {escape(facts["study"])}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body) + "\n</body></html>\n"


def _comparators() -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in HEADINGS)
    lines = ["".join(f'<td class="text">{escape(cell)}</td>' for cell in row) for row in compared()]
    rows = "\n".join(f"<tr>{line}</tr>" for line in lines)
    words = "Comparators are run as published. These settings differ in the preset <code>paper</code>:"
    return (
        f'<h2 id="comparators">Comparators as published</h2>\n<p>{words}</p>\n'
        f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>"
    )


def _table(table: Table, lines: list[Line], where: str) -> str:
    heads = "".join(f"<th>{HEADS[m]}</th>" for m in table.metrics)
    rows = "\n".join(_row(line, table.metrics) for line in lines)
    return (
        f"<table><caption>{where}</caption><thead><tr><th>Method</th>{heads}<th>seeds</th><th>collapsed</th>"
        f"<th>seconds</th><th>peak MB</th></tr></thead>\n<tbody>{rows}</tbody></table>"
    )


def _row(line: Line, metrics: tuple[str, ...]) -> str:
    name = f"<td>{escape(line.label)}{'*' if line.starred else ''}</td>"
    if line.error:
        return (
            f'<tr>{name}<td class="text missing" colspan="{len(metrics) + 4}">Not made: {escape(line.error)}</td></tr>'
        )
    cells = "".join(f"<td>{_value(line, metric)}</td>" for metric in metrics)
    seconds = "-" if line.seconds is None else f"{line.seconds:.0f}"
    memory = "-" if line.memory is None else f"{line.memory / 1e6:.0f}"
    return f"<tr>{name}{cells}<td>{line.seeds}</td><td>{line.collapsed}</td><td>{seconds}</td><td>{memory}</td></tr>"


def _value(line: Line, metric: str) -> str:
    texts = []
    if metric in line.values:
        mean, deviation = line.values[metric]
        texts.append(f"{mean:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}"))
    else:
        texts.append("-")
    if metric in line.ci:
        low, high = line.ci[metric]
        texts.append(f"<small>[{low:.3f}, {high:.3f}]</small>")
    if metric in line.paper:
        spread = f" ± {line.spread[metric]:.3f}" if metric in line.spread else ""
        sign = f'<abbr title="{escape(line.derived)}">≈</abbr> ' if line.derived else ""
        star = "*" if line.paper_starred else ""
        texts.append(f"<small>paper {sign}{line.paper[metric]:.3f}{star}{spread}</small>")
    return "".join(texts)


def _claims(claims: list[Claim], where: str) -> str:
    if not claims:
        return ""
    rows = "\n".join(
        f"<tr><td>{escape(c.better)} better than {escape(c.than)}</td><td>{HEADS[c.metric]}</td>"
        f"<td>{c.difference:+.3f}</td><td>{c.p:.2g}</td><td>{c.corrected:.2g}</td>"
        + ('<td class="holds">holds</td>' if c.holds else "<td>not shown</td>")
        + "</tr>"
        for c in claims
    )
    tests = "AUROC by DeLong's test, Dice by a paired bootstrap, over patients if known; p corrected by Holm"
    return (
        f"<table><caption>{where}: {tests}</caption><thead><tr><th>Claim</th><th>of</th><th>difference</th><th>p</th>"
        f"<th>corrected</th><th></th></tr></thead>\n<tbody>{rows}</tbody></table>"
    )
