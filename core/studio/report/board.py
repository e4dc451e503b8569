"""Checks the settings of a report, queues the job that makes it, and returns which of its cells are finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.studio.db.store import Store
from core.studio.ingest.studies import show_study
from core.studio.jobs import queue as jobs
from core.studio.jobs.queue import NOT_ENDED
from core.studio.jobs.steps import Work
from core.studio.report.arms import work_of
from core.studio.report.cells import Cell, kept_cell
from core.studio.report.published import comparison_dataset
from core.studio.report.summary import HEADS, Line, lines_of
from core.studio.report.tables import FILES, TABLES, Table, network_of, tables_of
from core.studio.training.estimate import Estimate, usual_seconds


def board(store: Store, study: str, settings: dict[str, Any], roi: bool) -> dict[str, Any]:
    """Returns the state of the report with the given settings (a result of `settings`). Starts no run.

    roi: Whether only pixels inside the region of interest count.

    Returns:
        "tables" lists each table's name, title, column heads and rows (results, published numbers and run ids).
        "done" is the number of finished cells, "wanted" that of all cells, and "job" the newest job. "files" and "made"
        are the formats and the time of the last report. "beside" names the data set of the published numbers and
        whether the study is named after it. "network" describes the backbone.
    """
    dataset, is_own = comparison_dataset(study)
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
    written = [kind for kind, name in FILES.items() if (folder(store, study) / name).is_file()]
    return {
        "tables": tables, "done": done, "wanted": planned, "job": _brief(job_of(store, study)),
        "files": sorted(written), "made": last.get("made"), "beside": {"dataset": dataset, "own": is_own},
        "network": network.sentence,
    }  # fmt: skip


def missing(store: Store, study: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Counts the report cells that are still to be computed, and estimates how long this will take.

    A cell is the result of a row with one seed. It is expected to take the mean time of the row's finished cells or,
    without any, the usual time of its steps on this machine. An encoder shared by several cells is then counted once.

    Returns {"cells": number, "seconds": total, "rows": {table: {label: seconds}}}; "rows" has incomplete rows only.
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
                usual_time = slower * sum(usual_seconds(store, step, run, {}) for step, run in steps)
                row = costs.setdefault(table.name, {})
                cells += 1
                row[arm.label] = row.get(arm.label, 0.0) + (sum(took) / len(took) if took else usual_time)
    seconds = sum(cost for row in costs.values() for cost in row.values())
    return {"cells": cells, "seconds": round(seconds, 1), "rows": costs}


def _about(table: Table) -> dict[str, Any]:
    heads = [{"metric": metric, "title": HEADS[metric]} for metric in table.metrics]
    return {"name": table.name, "title": table.title, "heads": heads}


def _row(line: Line, cells: dict[int, Cell | None], failed: str) -> dict[str, Any]:
    """Returns a row for the page. `failed` is the reason why the last report lacks the row, if there are no results."""
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
    file = folder(store, study) / FILES["json"]
    return json.loads(file.read_text()) if file.is_file() else {}


SIZES = {"quick": 64, "paper": 256}  # image side length in pixels, by budget


def settings(
    store: Store,
    study: str,
    *,
    tables: list[str] | None = None,
    rows: list[str] | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    budget: str = "quick",
    network: str | None = None,
    weights: str | None = None,
    size: int | None = None,
    protocol: str = "paper",
    **others: Any,
) -> dict[str, Any]:
    """Checks the settings of a report and returns them as the arguments of the job step `report`.

    Args:
        tables: Names of the tables; defaults to all tables.
        rows: Labels of the rows; defaults to all rows.
        seeds: Number of seeds, starting from `first_seed`.
        budget: One of `tables.BUDGETS`.
        network: Name of the network; defaults to the network of the budget.
        weights: `imagenet` or a weights file; defaults to the weights of the network.
        size: Image side length in pixels; defaults to that of the budget.
        protocol: How thresholds are chosen, `paper` or `held-out`.
        **others: `dataset` of the published numbers, `device`, number of `bootstrap` samples, and folder `out`.

    Raises:
        NotFound: If the study is unknown.
        ValueError: If a table, row, budget or network is unknown, or if the weights file does not exist.
    """
    names = tables or list(TABLES)
    tables_of(names, budget, rows)
    network_of(budget, network)
    if weights not in (None, "imagenet"):
        if not Path(weights).is_file():
            raise ValueError(f"no weights file at {weights}; give a file, or imagenet")
        weights = str(Path(weights).absolute())
    study_id = show_study(store, study)["id"]
    args = {"study": study_id, "tables": names, "rows": rows, "seeds": list(range(first_seed, first_seed + seeds))}
    args |= {"network": network, "weights": weights}
    args |= {"size": size or SIZES[budget], "budget": budget, "protocol": protocol, "out": str(folder(store, study_id))}
    return {**args, **{name: value for name, value in others.items() if value is not None}}


def folder(store: Store, study: str) -> Path:
    """Returns the default folder for the files of a study's report."""
    return store.home.path / "reports" / study


def submit(store: Store, asked: dict[str, Any]) -> int:
    """Queues a job that makes a report with the settings `asked`, and returns the job's id.

    A repeated request returns the active job. Raises ValueError if another report job of the study is unfinished.
    """
    steps = [{"step": "report", "run": "", "args": asked}]

    def alone() -> list[dict[str, Any]]:
        before = job_of(store, asked["study"])
        if before and before["status"] in NOT_ENDED:
            raise ValueError(f"the report on this study is already {before['status']}: wait for it, or stop it")
        return steps

    return int(jobs.once(store, steps, alone)["id"])


def job_of(store: Store, study: str) -> dict[str, Any] | None:
    """Returns the newest report job of a study, even if it has ended, or None if there is none."""
    report_jobs = (job for job in jobs.list_jobs(store) if job["step"] == "report" and job["args"]["study"] == study)
    return max(report_jobs, key=lambda job: job["id"], default=None)


def report_step(work: Work) -> None:
    """Makes a report, as a step of a job. The arguments of the step are a result of `settings`."""
    from core.studio.report.report import make_report  # loads matplotlib, which few other steps need

    make_report(work.store, work.args, work.report, work.should_stop)
    work.report({"message": f"Written: {', '.join(FILES.values())}"})  # no paths, because all readers see it
