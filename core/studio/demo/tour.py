"""Prepares the demo study for the guided tour, and resets the study to its original state."""

from __future__ import annotations

import time

from core.studio.clusters.library import forget
from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.demo import STUDY
from core.studio.demo import study as demo
from core.studio.jobs import orphans
from core.studio.jobs import queue as jobs
from core.studio.jobs.queue import NOT_ENDED
from core.studio.review import masks
from core.studio.review.cases import scored_runs
from core.studio.review.context import RequestContext
from core.studio.runs import records as runs
from core.studio.runs.look import NAME, look
from core.studio.training.live import brief

PATIENCE = 60.0  # seconds for a worker to stop its job
_LOOKED = f"FROM runs WHERE kind = 'fit' AND name = '{NAME}' AND status = 'done'"
# Runs that are kept: those of the bundle, finished first looks and their encoders.
_STAY = (
    f"SELECT j.value FROM settings s, json_each(s.value) j WHERE s.key = '{demo.CAME}' "
    f"UNION SELECT id {_LOOKED} UNION SELECT parent {_LOOKED}"
)


def prepare(store: Store, device: str = "auto", wake: bool = True) -> dict:
    """Imports the demo study if it is missing, queues a first look if no run has scored it, and returns its `state`."""
    demo.offer(store, device)
    if _there(store) and not scored_runs(store, STUDY) and not _jobs(store, "running", "queued"):
        look(store, STUDY, device, start=False)
    if wake:
        jobs.ensure_worker(store)
    return state(store)


def state(store: Store) -> dict:
    """Returns the state of the demo study as a dictionary.

    "study" is the id of the study, "ready" tells whether the study exists, "job" is its running or waiting job (or
    None), "found" is the result of `found`, and "stored" is the id of its newest finished pre-training run (or None).
    """
    going = _jobs(store, "running", "queued")
    at_work = next((j for j in going if j["status"] == "running"), going[-1] if going else None)
    trained = store.one(
        "SELECT id FROM runs WHERE study = ? AND kind = 'pretrain' AND status = 'done' AND method NOT IN "
        "('imagenet', 'untrained') ORDER BY created DESC, rowid DESC LIMIT 1",
        [STUDY],
    )
    return {"study": STUDY, "ready": _there(store), "job": brief(at_work), "found": found(store),
            "stored": trained and trained["id"]}  # fmt: skip


def agreement(store: Store, reader: str) -> dict:
    """Counts the test images that a reader has called normal or abnormal and that the first run in Review has scored.

    "read" counts all of these images, "machine" those on which reader and run agree, "truth" those on which reader and
    ground truth agree, and "missed" the abnormal images that the reader called abnormal but the run did not flag.
    """
    scored = scored_runs(store, STUDY)
    row = store.first(
        "SELECT count(*) AS read, sum(said = flagged) AS machine, sum(said = truth) AS truth, "
        "sum(said AND truth AND NOT flagged) AS missed FROM (SELECT k.decision = 'abnormal' AS said, "
        "c.label = 'abnormal' AS truth, coalesce(r.flagged_roi, r.flagged) AS flagged FROM (SELECT case_id, decision, "
        "max(stage) FROM current_reviews WHERE reader = ? AND stage != 'adjudication' GROUP BY case_id) k "
        "JOIN cases c ON c.id = k.case_id JOIN readings r ON r.case_id = c.id AND r.run = ? "
        "WHERE c.study = ? AND c.split = 'test' AND k.decision IN ('normal', 'abnormal'))",
        [reader, scored[0]["id"] if scored else None, STUDY],
    )
    return {name: int(value or 0) for name, value in row.items()}


def found(store: Store) -> int | None:
    """Returns the id of the abnormal case that scores highest in the first run of Review, or None without scores."""
    scored = scored_runs(store, STUDY)
    row = store.one(
        "SELECT c.id FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.label = 'abnormal' "
        "AND r.map IS NOT NULL ORDER BY r.score_roi DESC, c.id LIMIT 1",
        [scored[0]["id"] if scored else None],
    )
    return row["id"] if row else None


def reset(store: Store, reader: str, seconds: float = PATIENCE) -> dict:
    """Resets the demo study to its original state, and returns the result of `state`.

    Tags, saved views, findings, and runs and maps that were added later are deleted. Reviews are withdrawn but not
    deleted; the audit trail records this. A changed lesion mask gets a new version that equals the imported mask.
    Raises ValueError if a running job does not stop within `seconds`.
    """
    if not _there(store):
        return state(store)
    _end_jobs(store, seconds)
    orphans.mark(store)  # so that runs that a killed command left 'running' can be deleted, too
    fits_first = store.query(
        f"SELECT id FROM runs WHERE study = ? AND id NOT IN ({_STAY}) ORDER BY parent IS NULL", [STUDY]
    )
    for row in store.query(f"SELECT key FROM cluster_maps WHERE study = ? AND run NOT IN ({_STAY})", [STUDY]):
        forget(store, row["key"])
    for row in fits_first:
        runs.delete_run(store, row["id"])
    here = "case_id IN (SELECT id FROM cases WHERE study = :study)"
    params = {"study": STUDY, "reader": demo.READER}
    with store.write() as db:
        active = f"active = 1 AND reader != :reader AND {here}"
        counted = store.first(f"SELECT count(*) AS n FROM reviews WHERE {active}", params)["n"]
        db.execute(f"UPDATE reviews SET active = 0 WHERE {active}", params)
        for table in ("assignments", "findings", "mask_drafts"):
            db.execute(f"DELETE FROM {table} WHERE {here}", {"study": STUDY})
        db.execute(f"DELETE FROM evaluations WHERE study = ? AND run NOT IN ({_STAY})", [STUDY])
        for table in ("cluster_views", "undone"):
            db.execute(f"DELETE FROM {table} WHERE study = ?", [STUDY])
        db.execute("UPDATE cases SET tags = '[]' WHERE study = ?", [STUDY])
        for name in ("blind", "labels", "tags"):
            db.execute("DELETE FROM settings WHERE key = ?", [f"{name}:{STUDY}"])
        for mask in _redrawn(store):
            case_id = store.first("SELECT case_id FROM lesion_masks WHERE id = ?", [mask])["case_id"]
            masks.restore(RequestContext.read(store, reader, case_id=case_id), mask)
        audit.record(store, reader, "reset", study=STUDY, before={"reviews": counted, "runs": len(fits_first)})
    return state(store)


def _there(store: Store) -> bool:
    return store.one("SELECT 1 FROM studies WHERE id = ?", [STUDY]) is not None


def _jobs(store: Store, *statuses: str) -> list[dict]:
    """Returns the jobs that have a run of the demo study."""
    mine = {r["id"] for r in store.query("SELECT id FROM runs WHERE study = ?", [STUDY])}
    listed = jobs.list_jobs(store, *statuses)
    return [j for j in listed if any(s["run"] in mine for s in j["chain"])]


def _end_jobs(store: Store, seconds: float) -> None:
    for job in _jobs(store, *NOT_ENDED):
        jobs.cancel(store, job["id"])
    end = time.monotonic() + seconds
    while _jobs(store, "running"):
        if time.monotonic() > end:
            raise ValueError("The training run is still stopping. Press Reset again in a moment.")
        time.sleep(0.1)


def _redrawn(store: Store) -> list[int]:
    """Returns the ids of imported masks that differ from the newest mask of their case."""
    rows = store.query(
        "SELECT id FROM lesion_masks m WHERE source = 'import' AND case_id IN (SELECT id FROM cases WHERE study = ?) "
        "AND png != (SELECT png FROM lesion_masks n WHERE n.case_id = m.case_id ORDER BY version DESC LIMIT 1)",
        [STUDY],
    )
    return [r["id"] for r in rows]
