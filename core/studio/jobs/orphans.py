"""Runs marked 'running' whose process ended without recording it, and which no job has."""

from __future__ import annotations

import json
import os
from pathlib import Path

from core.engine.files import write_json
from core.studio.db import journal
from core.studio.db.store import Store
from core.studio.jobs import queue as jobs
from core.studio.jobs.processes import is_alive, start_of

FILE = "process.json"  # in the run's folder, while a process is at it


def sign(folder: Path) -> None:
    """Records that this process works on the run of that folder."""
    write_json(folder / FILE, {"pid": os.getpid(), "start": start_of(os.getpid())})


def leave(folder: Path) -> None:
    """Removes what `sign` recorded: this process has left the run."""
    (folder / FILE).unlink(missing_ok=True)


def mark(store: Store) -> list[str]:
    """Marks as 'interrupted' runs that say 'running' though their worker, or the command that had them, is gone.

    A job's run is left to the job, which knows how to go on. Returns the runs' ids; to be called at start-up.
    """
    at_work = {j["run"] for j in jobs.list_jobs(store, "running")}
    gone = []
    for row in store.query("SELECT id, folder FROM runs WHERE status = 'running'"):
        if row["id"] in at_work or _alive(store.home.path / row["folder"]):
            continue
        with store.write() as db:
            db.execute("UPDATE runs SET status = 'interrupted' WHERE id = ? AND status = 'running'", [row["id"]])
        journal.log(store, row["id"], "The process that worked on this run ended without a word; repeat the run")
        gone.append(row["id"])
    return gone


def _alive(folder: Path) -> bool:
    try:
        signed = json.loads((folder / FILE).read_text())
        return is_alive(signed["pid"], signed["start"])
    except (OSError, ValueError, KeyError):
        return False
