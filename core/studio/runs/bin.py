"""The bin: removed runs and studies are hidden, can be restored, and are deleted after a week."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone

from core.studio.db import audit
from core.studio.db.store import NotFound, Row, Store, now
from core.studio.ingest.records import delete_study, holds_reviews, study_row
from core.studio.runs import records as runs

DAYS = 7


def put_run(store: Store, run_id: str, by: str) -> int:
    """Moves a run and its fits to the bin; returns their size in bytes. Raises ValueError if any of them is running."""
    with store.write() as db:
        everything = [run_id, *runs.children(store, run_id)]
        for member in everything:
            if runs.get_run(store, member)["status"] == "running":
                raise ValueError(f"{member} is running: cancel it first")
        when = now()
        for member in everything:
            db.execute("UPDATE runs SET binned = ? WHERE id = ? AND binned IS NULL", [when, member])
        run = runs.get_run(store, run_id)
        audit.record(store, by, "bin", study=run["study"], before={"runs": everything, "name": run["name"]})
    return sum(runs.folder_bytes(store, run) for run in everything)


def put_study(store: Store, study: str, by: str) -> None:
    """Moves a study and its runs to the bin. Raises ValueError if readers have already worked on the study."""
    with store.write() as db:
        row = study_row(store, study)
        holds_reviews(store, study)
        db.execute("UPDATE studies SET binned = ? WHERE id = ?", [now(), study])
        audit.record(store, by, "bin", study=study, before={"study": row["name"]})


def contents(store: Store) -> list[Row]:
    """Lists the contents of the bin, newest first: [{"kind", "id", "name", "study", "binned", "until"}].

    `binned` and `until` are the times of removal and deletion. Detector runs removed with their encoder are omitted.
    """
    rows = store.query(
        "SELECT 'study' AS kind, id, name, id AS study, binned FROM studies WHERE binned IS NOT NULL UNION ALL "
        "SELECT 'run', r.id, r.name, r.study, r.binned FROM runs r LEFT JOIN runs p ON p.id = r.parent "
        "WHERE r.binned IS NOT NULL AND p.binned IS NOT r.binned ORDER BY binned DESC, id"
    )
    return [{**row, "until": _plus(row["binned"], DAYS)} for row in rows]


def restore(store: Store, kind: str, id: str, by: str) -> None:
    """Restores a study or a run. Raises NotFound if it is not in the bin.

    A run is restored together with its encoder and with the detector runs that were removed at the same time.
    """
    row = next((r for r in contents(store) if (r["kind"], r["id"]) == (kind, id)), None)
    if row is None:
        raise NotFound(f"there is no {kind} {id!r} in the bin, which is emptied after {DAYS} days")
    with store.write() as db:
        if kind == "study":
            db.execute("UPDATE studies SET binned = NULL WHERE id = ?", [id])
        else:
            db.execute(
                "UPDATE runs SET binned = NULL WHERE binned = ? AND (id = ? OR parent = ?)", [row["binned"], id, id]
            )
            db.execute("UPDATE runs SET binned = NULL WHERE id = (SELECT parent FROM runs WHERE id = ?)", [id])
        audit.record(store, by, "restore", study=row["study"], after={kind: row["name"]})


def empty(store: Store, days: float = DAYS) -> int:
    """Permanently deletes runs and studies that were put in the bin `days` or more days ago; returns their number."""
    before = _plus(now(), -days)
    deleted = 0
    for row in (row for row in contents(store) if row["binned"] <= before):
        if row["kind"] == "study":
            with suppress(ValueError):  # a study that readers worked on stays in the bin
                delete_study(store, row["id"])
                deleted += 1
        else:
            for run in [*runs.children(store, row["id"]), row["id"]]:
                runs.delete_run(store, run)
            deleted += 1
    return deleted


def _plus(time: str, days: float) -> str:
    moved = datetime.fromisoformat(time.replace("Z", "+00:00")) + timedelta(days=days)
    return moved.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
