"""Makes the report on a study: executes missing runs, and writes the results as HTML, CSV, LaTeX and JSON.

A stopped report can be resumed, because finished runs are found by their configuration.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.medmix.medmix import MedMix
from core.engine.progress import Report, Stop
from core.engine.rows import rows_of
from core.engine.tensors import to_batch, to_pixels
from core.engine.training.base import VALIDATION, generator
from core.studio.clusters import explore, figure, library
from core.studio.clusters.config import MapConfig
from core.studio.clusters.step import embed
from core.studio.db.store import Store, now
from core.studio.ingest.studies import load_arrays
from core.studio.jobs.steps import Work, never, nothing
from core.studio.report.cells import Cell, run_cell
from core.studio.report.published import COMPARED, DATASETS, compared, comparison_dataset
from core.studio.report.summary import HEADS, Claim, Line, judged_claims, lines_of
from core.studio.report.tables import FILES, Table, network_of, tables_of
from core.studio.review.exports.tables import cell as quoted
from core.studio.runs import records as runs
from core.studio.runs.sheet import draw_sheet
from core.studio.runs.weights import snapshots


def make_report(
    store: Store, settings: dict[str, Any], report: Report = nothing, should_stop: Stop = never
) -> dict[str, Any]:
    """Executes missing runs, writes FILES (omitting tables without rows), and returns the contents of the JSON file.

    settings: Settings of the report, a result of `board.settings`.
    report: Function that is called with the progress after each cell.
    If an arm fails, its row shows the reason, and other arms still run. Raises Stopped if `should_stop` returns True.
    """
    study, seeds, size, budget, protocol = (settings[k] for k in ("study", "seeds", "size", "budget", "protocol"))
    options = {name: settings[name] for name in ("device", "bootstrap") if name in settings}
    network = network_of(budget, settings.get("network"), settings.get("weights"))
    tables = [t for t in tables_of(settings["tables"], budget, settings.get("rows"), network) if t.arms]
    dataset, is_own = comparison_dataset(study, settings.get("dataset"))
    out = Path(settings["out"])
    cells: dict[str, list[Cell]] = {table.name: [] for table in tables}
    planned = [(seed, table, arm) for seed in seeds for table in tables for arm in table.arms]
    for done, (seed, table, arm) in enumerate(planned):
        cell = run_cell(store, study, arm, seed, size=size, should_stop=should_stop, **options)
        cells[table.name].append(cell)
        message = f"{done + 1} of {len(planned)}: {table.name}, {arm.label}, seed {seed}: {_outcome(cell, protocol)}"
        report({"step": done + 1, "steps": len(planned), "message": message})
    views: list[dict[str, Any]] = []
    for roi in (False, True):
        claims = judged_claims(store, tables, cells, roi, protocol)
        lines = {t.name: lines_of(t, cells[t.name], dataset, roi, protocol) for t in tables}
        views.append({"roi": roi, "lines": lines, "claims": claims})
    head = {
        "study": study, "budget": budget, "seeds": seeds, "size": size, "protocol": protocol, "made": now(),
        "dataset": DATASETS[dataset], "own_dataset": is_own, "network": network.sentence,
    }  # fmt: skip
    all_cells = [cell for group in cells.values() for cell in group]
    out.mkdir(parents=True, exist_ok=True)
    (out / FILES["html"]).write_text(page(head, tables, views, figures(store, study, size, all_cells)))
    (out / FILES["csv"]).write_text(csv_of(tables, cells))
    (out / FILES["tex"]).write_text(latex(head, tables, views))
    payload = {**head, "out": str(out), "missing": sorted({f"{c.label}: {c.error}" for c in all_cells if c.error})}
    payload["tables"] = {t.name: [vars(line) for line in views[0]["lines"][t.name]] for t in tables}
    payload["claims"] = [{**vars(c), "roi": v["roi"], "holds": c.holds} for v in views for c in v["claims"]]
    (out / FILES["json"]).write_text(json.dumps(payload, indent=1, default=str) + "\n")
    return payload


def _outcome(cell: Cell, protocol: str) -> str:
    if cell.error:
        return f"not made ({cell.error})"
    auroc = cell.rows[protocol, False]["auroc"]
    return f"AUROC {auroc:.3f}, {cell.seconds or 0:.0f} s"


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
    "paper": "Thresholds are chosen on 50 normal and 50 abnormal test images, which stay in the test set, as in the "
    "paper; the pixel threshold has the best Dice on such a sample. Both choices are optimistic.",
    "held-out": "Thresholds are chosen on held-out normal images only; no test image is used.",
}
STARS = (
    "* marks rows that do not use ImageNet's weights, as in the paper. The paper only marks DAE, OCGAN and ADGAN on "
    "Liu et al.'s colonoscopy set. Whether the paper's CCD and PMSACL started from ImageNet's weights is unknown. "
    "PaDiM, IGD, PANDA, CutPaste and the row ImageNet use the initial network, without self-supervised pre-training."
)


def page(facts: dict[str, Any], tables: list[Table], views: list[dict[str, Any]], pictures: dict[str, bytes]) -> str:
    """Returns the report as an HTML page.

    facts: Description of the report: study, budget, seeds, image size, protocol, time, data set and network.
    views: Results for whole images and for regions of interest, each as {"roi", "lines", "claims"}.
    pictures: PNG images by caption.
    """
    seeds = facts["seeds"]
    paper_numbers = f"the paper's number on {facts['dataset']}"
    if not facts["own_dataset"]:
        paper_numbers += ", other images than these"
    body = [
        f"<h1>The paper's tables on {escape(facts['study'])}</h1>",
        f"<p>Budget {escape(facts['budget'])}, images of {facts['size']} pixels, {len(seeds)} seeds "
        f"({', '.join(map(str, seeds))}), made {escape(str(facts['made']))}. Cells show the mean ± standard deviation "
        f"over seeds, the first seed's 95 % interval over test images, and {escape(paper_numbers)}.</p>",
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
    heads = "".join(f"<th>{escape(head)}</th>" for head in COMPARED)
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
        f"<table><caption>{where}: {tests}</caption><thead><tr><th>Claim</th><th>metric</th><th>difference</th>"
        f"<th>p</th><th>corrected</th><th></th></tr></thead>\n<tbody>{rows}</tbody></table>"
    )


METRICS = (*HEADS, "ap", "pixel_auroc")
_COLUMNS = ("table", "row", "seed", "protocol", "roi", *METRICS, "seconds", "memory", "collapsed", "fit", "encoder")


def csv_of(tables: list[Table], cells: dict[str, list[Cell]]) -> str:
    """Returns the cells as CSV, one line per table, row, seed, protocol and region (image or region of interest)."""
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
    """Returns LaTeX tables (booktabs) of means and standard deviations, with the paper's numbers in brackets."""
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
                f"{_plain(table.title)} on {_plain(head['study'])}, {where}: our mean over {len(head['seeds'])} seeds, "
                f"with the published number ({_plain(head['dataset'])}) in brackets. {network}"
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


SHOWN = 6


def figures(store: Store, study: str, size: int, cells: list[Cell]) -> dict[str, bytes]:
    """Returns the report's figures, {caption: PNG}. If no PMSACL row has a Dice, only the MedMix figure is drawn."""
    pictures = {"MedMix on normal images: classes A_0 to A_3, a row each": medmix_strip(store, study, size)}
    ours = [c for c in cells if not c.error and c.label.startswith("PMSACL") and c.rows["paper", False].get("dice")]
    if not ours:
        return pictures
    best = max(ours, key=lambda c: c.rows["paper", False]["dice"])
    row = f"{best.label}, seed {best.seed}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sheet.png"
        draw_sheet(store, best.fit, file, best=6, worst=6, roi=False)
        pictures[f"Heat maps and lesion masks: {row}"] = file.read_bytes()
    clusters = clusters_figure(store, best.encoder)
    if clusters:
        pictures[f"Features f before and after training, t-SNE: {row}"] = clusters
    return pictures


def clusters_figure(store: Store, encoder: str) -> bytes | None:
    """Draws an encoder's features before and after training as PNG; returns None if fewer than two epochs are saved."""
    epochs = [snapshot.epoch for snapshot in snapshots(store, runs.get_run(store, encoder))]
    if len(epochs) < 2:
        return None
    # Not centred: centring with a centre per class would separate even untrained features.
    config = MapConfig(feature="projected", epochs=(epochs[0], epochs[-1]))
    key = embed(Work(store, encoder, {"config": config.to_dict()}))
    opened = library.open_map(store, key)
    classes = next(c for c in explore.columns(store, opened, None) if c["name"] == "pseudo")
    return figure.draw(opened, "png", column=classes, objective=figure.objective(store, opened))


def medmix_strip(store: Store, study: str, size: int) -> bytes:
    """Draws SHOWN training images with zero to three pasted lesions, one row per number of lesions, as PNG."""
    import cv2
    import torch

    arrays = load_arrays(store, study, size)
    train = arrays.index("train")[:SHOWN]
    x = to_batch(rows_of(arrays.images, train), torch.device("cpu"))
    inside = torch.from_numpy(np.array(rows_of(arrays.roi, train)))
    mixed = MedMix(MEDMIX_PRESETS["paper"]).classes(x, 3, generator(0, VALIDATION), inside)
    images = mixed.images.unflatten(0, (len(train), 4)).transpose(0, 1)
    pixels = to_pixels(images.flatten(0, 1)).reshape(4, len(train), size, size, 3)
    mosaic = np.concatenate([np.concatenate(list(row), 1) for row in pixels])
    return bytes(cv2.imencode(".png", mosaic[..., ::-1])[1].tobytes())
