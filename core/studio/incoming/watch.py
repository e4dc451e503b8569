"""Watches folders: imports new files into the study of the folder, scores them and shows them in the worklist.

The app (`Lookout`) or the command `watch` checks the folders repeatedly. Each check records new files in the table
`incoming`. Once a file has stopped changing, one job with the step `import` (job.py) is queued. A watch is a setting of
this machine and is not part of the study's bundle.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from core.studio.db import audit, logged
from core.studio.db.store import Store, now
from core.studio.ingest.layouts import files_under
from core.studio.ingest.studies import study_row
from core.studio.jobs import queue as jobs
from core.studio.jobs.queue import NOT_ENDED
from core.studio.runs import records as runs

SETTLE = 4.0  # seconds for which the size and time of a file must not change
EVERY = 3.0  # seconds between two checks
MISSING = "There is no folder"  # start of the message while a watched folder is missing
SHARE = 20  # checks take at most 1 / SHARE of the time, even for large folders
UNFINISHED = {".part", ".partial", ".tmp", ".temp", ".crdownload", ".filepart", ".download"}  # of incomplete files
LISTED = 50  # skipped files that are listed by name


def set_watch(
    store: Store, study: str, folder: str, by: str, run: str | None = None, active: bool = True, copy: bool = False
) -> dict:
    """Sets the watched folder of a study, or stops watching if `active` is False; returns the result of `shown`.

    run: Id of the run that scores new cases. Defaults to the first run in Review.
    copy: Whether the files are copied into the home; otherwise they are read in place.

    Raises ValueError if the folder does not exist, or if `run` is not a finished fit of the study.
    """
    study_row(store, study)
    path = Path(folder.strip()).expanduser().absolute() if folder.strip() else None
    if path is None:
        raise ValueError("enter the path of the folder to watch on this machine")
    if active and not path.is_dir():
        raise ValueError(f"the folder {path} does not exist; create it first")
    if run:
        row = runs.get_run(store, run)
        if row["study"] != study or row["kind"] != "fit" or row["status"] != "done":
            raise ValueError(f"{run} is not a finished fit of {study}; choose a finished fit")
    with store.write() as db:
        before = store.one("SELECT folder, run, active, copy FROM watches WHERE study = ?", [study])
        row = {"folder": str(path), "run": run or None, "active": int(active), "copy": int(copy)}
        if before and before["folder"] != row["folder"]:
            db.execute("DELETE FROM incoming WHERE study = ?", [study])
        if before != row:
            db.table("watches").upsert({"study": study, **row, "message": ""}, pk="study")
            audit.record(store, by, "watch", study=study, before=before, after=row)
    return shown(store, study)


def get_watch(store: Store, study: str) -> dict | None:
    """Returns the watch of a study as `shown` does, or None if the study has no watch."""
    exists = store.one("SELECT 1 FROM watches WHERE study = ?", [study])
    return shown(store, study) if exists else None


def shown(store: Store, study: str) -> dict:
    """Returns the watch of a study as a dictionary. Raises NotFound if the study has no watch.

    The dictionary contains the settings, "counts" (number of files by state), "left_out" (files that could not be
    imported, as [{"name", "note"}]) and "job" (the import job that has not ended, or None).
    """
    row = store.first("SELECT * FROM watches WHERE study = ?", [study])
    counts = {
        r["state"]: r["n"]
        for r in store.query("SELECT state, count(*) AS n FROM incoming WHERE study = ? GROUP BY state", [study])
    }
    failed = store.query(
        "SELECT path, note FROM incoming WHERE study = ? AND state = 'failed' ORDER BY at DESC LIMIT ?", [study, LISTED]
    )
    job = open_job(store, study)
    return {
        **row,
        "active": bool(row["active"]),
        "copy": bool(row["copy"]),
        "counts": counts,
        "left_out": [{"name": Path(r["path"]).name, "note": r["note"]} for r in failed],
        "job": job and {"id": job["id"], "status": job["status"], "message": job["message"]},
    }


def watched(store: Store) -> list[dict]:
    """Returns the rows of the active watches, except those of studies in the bin."""
    query = "SELECT w.* FROM watches w JOIN studies s ON s.id = w.study"
    return store.query(f"{query} WHERE w.active = 1 AND s.binned IS NULL ORDER BY w.study")


def ended(store: Store) -> dict[tuple[str, str], str]:
    """Returns {(study, path): 'taken', 'double REASON' or 'failed REASON'} for all files that were processed."""
    query = "SELECT study, path, state, note FROM incoming WHERE state IN ('taken', 'double', 'failed')"
    return {(r["study"], r["path"]): f"{r['state']} {r['note']}".strip() for r in store.query(query)}


def changes(store: Store) -> dict[str, str]:
    """Returns {study: time at which its watch last imported or scored cases}, so that pages know when to refresh."""
    query = "SELECT study, changed FROM watches WHERE changed IS NOT NULL"
    return {r["study"]: r["changed"] for r in store.query(query)}


def arrivals(store: Store) -> dict[str, str]:
    """Returns {watched study: time when its newest case was added}, for readers who must not know scoring times."""
    query = "SELECT w.study, (SELECT max(c.added) FROM cases c WHERE c.study = w.study) AS added FROM watches w"
    return {r["study"]: r["added"] for r in store.query(f"{query} WHERE w.changed IS NOT NULL") if r["added"]}


def open_job(store: Store, study: str) -> dict | None:
    """Returns a study's newest import job that has not ended, or None if there is no such job."""
    return store.one(
        "SELECT id, status, message FROM jobs WHERE step = 'import' AND json_extract(args, '$.study') = ? "
        "AND status IN (?, ?, ?, ?) ORDER BY id DESC LIMIT 1",
        [study, *NOT_ENDED],
    )


def look(store: Store, clock: Callable[[], float] = time.time) -> list[int]:
    """Checks each watched folder once, queues or resumes imports of complete files; returns the ids of these jobs."""
    looks = [_look(store, watch, clock()) for watch in watched(store)]
    queued = [job for job in looks if job is not None]
    if queued:
        jobs.ensure_worker(store)
    return queued


def _look(store: Store, watch: dict, at: float) -> int | None:
    study, folder = watch["study"], Path(watch["folder"])
    if not folder.is_dir():
        say(store, study, f"{MISSING} {folder} any more: put it back, or choose another.")
        return None
    if watch["message"].startswith(MISSING):
        say(store, study, "")
    noted = {r["path"]: r for r in store.query("SELECT * FROM incoming WHERE study = ?", [study])}
    rows, present = [], set()
    for path in files_under(folder):
        try:
            name, stat = str(path), path.stat()
            name.encode()
        except (OSError, UnicodeEncodeError):
            continue  # the file has been removed, or its name cannot be stored
        if path.suffix.lower() in UNFINISHED or not path.is_file():
            continue
        present.add(name)
        row = noted.get(name)
        if row is None or (row["size"], row["mtime"]) != (stat.st_size, stat.st_mtime_ns):
            rows.append((study, name, stat.st_size, stat.st_mtime_ns, at, "waiting", now()))
        elif row["state"] == "waiting" and at - row["since"] >= SETTLE:
            rows.append((study, name, row["size"], row["mtime"], row["since"], "ready", now()))
    gone = [(study, p) for p, r in noted.items() if r["state"] in ("waiting", "ready") and p not in present]
    with store.write() as db:
        if rows:
            db.conn.executemany(
                "INSERT INTO incoming (study, path, size, mtime, since, state, at) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (study, path) DO UPDATE SET size = excluded.size, mtime = excluded.mtime, "
                "since = excluded.since, state = excluded.state, at = excluded.at, note = '', "
                "tries = CASE WHEN excluded.state = 'ready' THEN tries ELSE 0 END",
                rows,
            )
        db.conn.executemany("DELETE FROM incoming WHERE study = ? AND path = ?", gone)
        db.execute("UPDATE watches SET looked = ? WHERE study = ?", [now(), study])
        return _queue(store, study)


def _queue(store: Store, study: str) -> int | None:
    """Queues the import job of a study or resumes an interrupted one, unless a job is running or waiting."""
    if store.one("SELECT 1 FROM incoming WHERE study = ? AND state = 'ready'", [study]) is None:
        return None
    job = open_job(store, study)
    if job is None:
        args = {"study": study, "device": store.setting("device", "auto")}
        return jobs.submit(store, [{"step": "import", "args": args}], start=False)
    if job["status"] == "interrupted":
        jobs.resume(store, job["id"], start=False)
        return job["id"]
    return None


def say(store: Store, study: str, text: str, changed: bool = False) -> None:
    """Stores the message that the page shows for a watch. `changed` says whether cases or scores were added."""
    store.execute(
        "UPDATE watches SET message = ?, changed = coalesce(?, changed) WHERE study = ? AND (message != ? OR ?)",
        [text, now() if changed else None, study, text, changed],
    )


class Lookout:
    """Context manager with a thread that checks the watched folders every few seconds."""

    def __init__(self, store: Store, every: float = EVERY):
        self._store, self._every, self._stop = store, every, threading.Event()
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)

    def __enter__(self) -> Lookout:
        self._thread.start()
        return self

    def __exit__(self, *error) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        pause, reported = self._every, ""
        while not self._stop.wait(pause):
            started = time.monotonic()
            try:
                look(self._store)
            except Exception as error:  # a full disk or a busy database must not end the checks permanently
                text = f"{type(error).__name__}: {logged.text_of(error)}"
                if text != reported:
                    print(f"Watched folders: {text}", file=sys.stderr, flush=True)
                reported = text
            pause = max(self._every, SHARE * (time.monotonic() - started))
        self._store.close()
