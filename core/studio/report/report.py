"""The report on a study: makes missing runs, then writes an HTML page, CSV and LaTeX.

It can be stopped and resumed, because every cell is a run in the store that is found by its configuration.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.engine.progress import Report, Stop
from core.studio.db.store import Store, now
from core.studio.jobs.steps import never, nothing
from core.studio.report import figures, formats
from core.studio.report.asked import FILES
from core.studio.report.cells import Cell, run_cell
from core.studio.report.claims import judged_claims
from core.studio.report.page import page
from core.studio.report.published import DATASETS, beside
from core.studio.report.summary import lines_of
from core.studio.report.tables import Network, Table, network_of, said, tables_of


def make_asked(
    store: Store, settings: dict[str, Any], report: Report = nothing, should_stop: Stop = never
) -> dict[str, Any]:
    """Makes the report with `asked.settings`, without tables that have no rows; returns the result of `make_report`."""
    settings = dict(settings)
    budget, out = settings["budget"], Path(settings.pop("out"))
    network = network_of(budget, settings.pop("network", None), settings.pop("weights", None))
    tables = [t for t in tables_of(settings.pop("tables"), budget, settings.pop("rows", None), network) if t.arms]
    return make_report(
        store, tables=tables, out=out, network=network, report=report, should_stop=should_stop, **settings
    )  # fmt: skip


def make_report(
    store: Store,
    study: str,
    tables: list[Table],
    seeds: list[int],
    out: Path,
    *,
    size: int,
    budget: str,
    network: Network,
    protocol: str = "paper",
    dataset: str | None = None,
    device: str = "auto",
    bootstrap: int = 1000,
    report: Report = nothing,
    should_stop: Stop = never,
) -> dict[str, Any]:
    """Makes missing runs and writes `FILES` to `out`; returns the contents of the JSON file.

    If an arm fails, its row has the reason, and the others go on.

    Args:
        store: The store.
        study: Name of the study.
        tables: The tables.
        seeds: The seeds.
        out: The folder of the report.
        size: Image side in pixels.
        budget: Name of the budget.
        network: The network of all rows.
        protocol: Protocol of thresholds.
        dataset: Data set of the published numbers; by default by the study's name, else Hyper-Kvasir.
        device: Device of the runs.
        bootstrap: Number of bootstrap samples.
        report: Called after each cell.
        should_stop: Called often.

    Raises:
        Stopped: If `should_stop` returns True.
    """
    dataset, is_own = beside(study, dataset)
    cells: dict[str, list[Cell]] = {table.name: [] for table in tables}
    planned = [(seed, table, arm) for seed in seeds for table in tables for arm in table.arms]
    for done, (seed, table, arm) in enumerate(planned):
        cell = run_cell(store, study, arm, seed, size=size, device=device, bootstrap=bootstrap, should_stop=should_stop)
        cells[table.name].append(cell)
        message = f"{done + 1} of {len(planned)}: {table.name}, {arm.label}, seed {seed}: {_said(cell, protocol)}"
        report({"step": done + 1, "steps": len(planned), "message": message})
    views: list[dict[str, Any]] = []
    for roi in (False, True):
        claims = judged_claims(store, tables, cells, roi, protocol)
        lines = {t.name: lines_of(t, cells[t.name], dataset, roi, protocol) for t in tables}
        views.append({"roi": roi, "lines": lines, "claims": claims})
    head = {
        "study": study, "budget": budget, "seeds": seeds, "size": size, "protocol": protocol, "made": now(),
        "dataset": DATASETS[dataset], "own_dataset": is_own, "network": said(network),
    }  # fmt: skip
    all_cells = [cell for group in cells.values() for cell in group]
    out.mkdir(parents=True, exist_ok=True)
    (out / FILES["html"]).write_text(page(head, tables, views, figures.figures(store, study, size, all_cells)))
    (out / FILES["csv"]).write_text(formats.csv_of(tables, cells))
    (out / FILES["tex"]).write_text(formats.latex(head, tables, views))
    payload = {**head, "out": str(out), "missing": sorted({f"{c.label}: {c.error}" for c in all_cells if c.error})}
    payload["tables"] = {t.name: [vars(line) for line in views[0]["lines"][t.name]] for t in tables}
    payload["claims"] = [{**vars(c), "roi": v["roi"], "holds": c.holds} for v in views for c in v["claims"]]
    (out / FILES["json"]).write_text(json.dumps(payload, indent=1, default=str) + "\n")
    return payload


def _said(cell: Cell, protocol: str) -> str:
    if cell.error:
        return f"not made ({cell.error})"
    auroc = cell.rows[protocol, False]["auroc"]
    return f"AUROC {auroc:.3f}, {cell.seconds or 0:.0f} s"
