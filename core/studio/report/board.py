"""The state of a report: the cells of its tables with their results and runs."""

from __future__ import annotations

import json
from typing import Any

from core.studio.db.store import Store
from core.studio.report import asked
from core.studio.report.arms import work_of
from core.studio.report.cells import Cell, kept_cell
from core.studio.report.published import beside
from core.studio.report.summary import HEADS, Line, lines_of
from core.studio.report.tables import Table, network_of, said, tables_of
from core.studio.training.estimate import Estimate, usual


def board(store: Store, study: str, settings: dict[str, Any], roi: bool) -> dict[str, Any]:
    """Returns the state of the report with `asked.settings`, without running anything.

    Returns:
        tables: [{"name", "title", "heads", "rows"}]; a row has its label, the values and the paper's numbers by metric,
        the runs of each seed (fit and encoder, or None), mean seconds, and the error in the last report. done, wanted:
        numbers of cells. files, made: formats and time of the last report. job: the newest job. beside: the data set of
        the published numbers, and whether it is the study's own. network: that of all rows, as a sentence.
    """
    dataset, is_own = beside(study)
    protocol, last = settings["protocol"], _last(store, study)
    tables = []
    done = planned = 0
    network = network_of(settings["budget"], settings["network"], settings["weights"])
    for table in tables_of(settings["tables"], settings["budget"], settings["rows"], network):
        cells = {
            (arm.label, seed): kept_cell(store, study, arm, seed, size=settings["size"])
            for arm in table.arms
            for seed in settings["seeds"]
        }
        finished = [cell for cell in cells.values() if cell]
        done, planned = done + len(finished), planned + len(cells)
        failed = {row["label"]: row["error"] for row in last.get("tables", {}).get(table.name, []) if row["error"]}
        rows = [
            _row(line, {seed: cells[line.label, seed] for seed in settings["seeds"]}, failed.get(line.label, ""))
            for line in lines_of(table, finished, dataset, roi, protocol)
        ]
        tables.append({**_about(table), "rows": rows})
    written = [kind for kind, name in asked.FILES.items() if (asked.folder(store, study) / name).is_file()]
    return {
        "tables": tables, "done": done, "wanted": planned, "job": _brief(asked.job_of(store, study)),
        "files": sorted(written), "made": last.get("made"), "beside": {"dataset": dataset, "own": is_own},
        "network": said(network),
    }  # fmt: skip


def missing(store: Store, study: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the number of missing cells of the report with `asked.settings` and an estimate of their time.

    A cell is expected to take the mean time of its row, or else the usual time at this machine's speed. An encoder that
    several cells share counts once.

    Returns {"cells", "seconds", "rows": {table: {label: seconds}} of the rows that miss a cell}.
    """
    slower, encoders = Estimate(store).slower, set[str]()
    cells, costs = 0, dict[str, dict[str, float]]()
    network = network_of(settings["budget"], settings["network"], settings["weights"])
    for table in tables_of(settings["tables"], settings["budget"], settings["rows"], network):
        for arm in table.arms:
            cells_made = {seed: kept_cell(store, study, arm, seed, size=settings["size"]) for seed in settings["seeds"]}
            took = [cell.seconds for cell in cells_made.values() if cell and cell.seconds]
            for seed in (seed for seed, cell in cells_made.items() if cell is None):
                work = work_of(store, study, arm, seed, size=settings["size"])
                trained = {run["name"] for _, run in work["encoder"]}
                steps = work["fit"] + (work["encoder"] if trained - encoders else [])
                encoders |= trained
                usual_time = slower * sum(usual(store, step, run, {}) for step, run in steps)
                row = costs.setdefault(table.name, {})
                cells += 1
                row[arm.label] = row.get(arm.label, 0.0) + (sum(took) / len(took) if took else usual_time)
    seconds = sum(cost for row in costs.values() for cost in row.values())
    return {"cells": cells, "seconds": round(seconds, 1), "rows": costs}


def _about(table: Table) -> dict[str, Any]:
    heads = [{"metric": metric, "title": HEADS[metric]} for metric in table.metrics]
    return {"name": table.name, "title": table.title, "heads": heads}


def _row(line: Line, cells: dict[int, Cell | None], failed: str) -> dict[str, Any]:
    """failed: why the row is missing in the last report; shown only if there are no results."""
    seeds = [
        {"seed": seed, "fit": cell.fit if cell else None, "encoder": cell.encoder if cell else None}
        for seed, cell in cells.items()
    ]
    values = {metric: {"mean": mean, "deviation": deviation} for metric, (mean, deviation) in line.values.items()}
    return {
        "label": line.label, "starred": line.starred, "paper_starred": line.paper_starred, "values": values,
        "paper": line.paper, "seeds": seeds, "seconds": line.seconds, "collapsed": line.collapsed,
        "failed": "" if line.seeds else failed,
    }  # fmt: skip


def _brief(job: dict[str, Any] | None) -> dict[str, Any] | None:
    if job is None:
        return None
    return {"id": job["id"], "status": job["status"], "progress": job["progress"], "message": job["message"] or ""}


def _last(store: Store, study: str) -> dict[str, Any]:
    file = asked.folder(store, study) / asked.FILES["json"]
    return json.loads(file.read_text()) if file.is_file() else {}
