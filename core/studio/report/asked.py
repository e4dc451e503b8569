"""The settings of a report from the command line or the page, and the folder where it is written."""

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
    """Checks the settings of a report and returns them as the arguments of its step.

    Args:
        store: The store.
        study: Name of the study.
        tables: Names of tables, None for all. rows: labels of rows, None for all.
        seeds: Number of seeds, from `first_seed` on.
        budget: One of `tables.BUDGETS`.
        network: As for `tables.network_of`, like `weights`.
        size: Image side in pixels, None for that of the budget.
        protocol: Protocol of thresholds.
        **others: Further arguments of `make_report`.

    Raises:
        NotFound: For an unknown study.
        ValueError: For an unknown table, row, budget or network, or if the weights file does not exist.
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
    """Returns the folder where a study's report is written by default."""
    return store.home.path / "reports" / study


def submit(store: Store, asked: dict[str, Any]) -> int:
    """Queues a report; returns its job. Raises ValueError while another report on the study has not ended."""
    steps = [{"step": "report", "run": "", "args": asked}]

    def alone() -> list[dict[str, Any]]:
        before = job_of(store, asked["study"])
        if before and before["status"] in NOT_ENDED:
            raise ValueError(f"a report on this study is {before['status']} already: wait for it, or stop it")
        return steps

    return int(jobs.once(store, steps, alone)["id"])


def job_of(store: Store, study: str) -> dict[str, Any] | None:
    """Returns the newest job of a study's report, ended or not, or None."""
    report_jobs = (job for job in jobs.list_jobs(store) if job["step"] == "report" and job["args"]["study"] == study)
    return max(report_jobs, key=lambda job: job["id"], default=None)
