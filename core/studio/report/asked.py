"""The settings of a report that the command line or the page asks for, and where it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.studio.db.store import Store
from core.studio.ingest.studies import show_study
from core.studio.jobs import queue as jobs
from core.studio.jobs.records import NOT_ENDED
from core.studio.report.tables import TABLES, network_of, tables_of

SIZES = {"quick": 64, "paper": 256}  # side of the images, in pixels
FILES = {"html": "report.html", "csv": "report.csv", "tex": "report.tex", "json": "report.json"}


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
    """Checks what is asked of a report and returns the step's args.

    tables, rows: by name, None for all; others: as `make_report` takes them. network, weights: as `tables.network_of`
    takes them. Raises NotFound for a study that there is not, ValueError for a table, row, budget or network, or
    weights that are no file.
    """
    names = tables or list(TABLES)
    tables_of(names, budget, rows)
    network_of(budget, network)
    if weights not in (None, "imagenet"):
        if not Path(weights).is_file():
            raise ValueError(f"no weights file at {weights}; give a file, or imagenet")
        weights = str(Path(weights).absolute())
    known = show_study(store, study)["id"]
    asked = {"study": known, "tables": names, "rows": rows, "seeds": list(range(first_seed, first_seed + seeds))}
    asked |= {"network": network, "weights": weights}
    asked |= {"size": size or SIZES[budget], "budget": budget, "protocol": protocol, "out": str(folder(store, known))}
    return {**asked, **{name: value for name, value in others.items() if value is not None}}


def folder(store: Store, study: str) -> Path:
    """Names the folder where a study's report is written by default."""
    return store.home.path / "reports" / study


def submit(store: Store, asked: dict[str, Any]) -> int:
    """Queues a report; returns its job. Raises ValueError while another report on the study has not ended."""
    steps = [{"step": "report", "run": "", "args": asked}]

    def alone() -> list[dict[str, Any]]:
        before = job_of(store, asked["study"])
        if before and before["status"] in NOT_ENDED:
            raise ValueError(f"a report on this study is {before['status']} already: let it end, or stop it")
        return steps

    return int(jobs.once(store, steps, alone)["id"])


def job_of(store: Store, study: str) -> dict[str, Any] | None:
    """Finds the newest job that makes a study's report, ended or not; None without any."""
    report_jobs = (job for job in jobs.list_jobs(store) if job["step"] == "report" and job["args"]["study"] == study)
    return max(report_jobs, key=lambda job: job["id"], default=None)
