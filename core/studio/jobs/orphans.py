"""Finds runs, other than those of jobs, whose status is still 'running' although their process has ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

from core.engine.files import write_json
from core.studio.db import journal
from core.studio.db.store import Store
from core.studio.jobs import queue as jobs
from core.studio.jobs.processes import is_alive, start_of

FILE = "process.json"  # in the run's folder while a process works on the run


def sign(folder: Path) -> None:
    """Records in a run's folder that this process is working on the run."""
    write_json(folder / FILE, {"pid": os.getpid(), "start": start_of(os.getpid())})


def leave(folder: Path) -> None:
    """Deletes the record that `sign` wrote. Call this when this process has finished its work on the run."""
    (folder / FILE).unlink(missing_ok=True)


def mark(store: Store) -> list[str]:
    """Changes the status of runs whose process has ended from 'running' to 'interrupted'; returns their ids.

    Skips the runs of running jobs, because jobs set the status of their runs. Call this at start-up.
    """
    at_work = {j["run"] for j in jobs.list_jobs(store, "running")}
    gone = []
    for row in store.query("SELECT id, folder FROM runs WHERE status = 'running'"):
        if row["id"] in at_work or _alive(store.home.path / row["folder"]):
            continue
        with store.write() as db:
            db.execute("UPDATE runs SET status = 'interrupted' WHERE id = ? AND status = 'running'", [row["id"]])
        journal.log(store, row["id"], "The process that worked on this run ended unexpectedly: repeat the run")
        gone.append(row["id"])
    return gone


def _alive(folder: Path) -> bool:
    try:
        signed = json.loads((folder / FILE).read_text())
        return is_alive(signed["pid"], signed["start"])
    except (OSError, ValueError, KeyError):
        return False
