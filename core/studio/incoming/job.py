"""Job step `import`, which imports the files that are ready in a watched folder and then scores the new cases.

In a study without a watched folder, the step only scores cases that were added by hand. It can be repeated at any time.
The final state of a file is 'taken' (a new case), 'double' (identical to a case or another file) or 'failed'.
"""

from __future__ import annotations

from pathlib import Path

from core.engine.files import file_sha256
from core.engine.progress import Stopped
from core.studio.db.store import Store, now
from core.studio.incoming import watch
from core.studio.ingest import roots
from core.studio.ingest.reader import printable
from core.studio.ingest.records import study_row
from core.studio.ingest.studies import add_cases
from core.studio.jobs import queue
from core.studio.jobs.steps import Work
from core.studio.review.cases import scored_runs
from core.studio.runs import records as runs
from core.studio.runs.scoring import score_new

BATCH = 200  # files imported in one transaction
TRIES = 3  # a file is skipped after the process has crashed this many times while reading the file


def import_incoming(work: Work) -> None:
    """Imports the files that are ready in a study's watched folder, then scores the new cases with `chosen_run`."""
    store, study = work.store, work.args["study"]
    study_row(store, study)  # raises NotFound for a study in the bin, before a file counts as tried
    row = store.one("SELECT * FROM watches WHERE study = ?", [study])
    if row is None:
        run = chosen_run(store, study, None)
        if run is not None:
            score_new(store, run, work.device, work.should_stop, work.report)
        return
    added = 0
    while batch := _ready(store, study):
        if work.should_stop():
            raise Stopped
        added += import_batch(work, row, batch)
    try:
        run = chosen_run(store, study, row["run"])
        if run is None:
            text = _unscored(store, study, row["run"])
        else:
            scored = score_new(store, run, work.device, work.should_stop, work.report)
            text = f"{scored} scored by {runs.get_run(store, run)['name']}"
    except ValueError as error:  # the cases are imported; the watch shows why they have no score
        text = f"not scored: {error}"
    watch.say(store, study, f"{added} {'case' if added == 1 else 'cases'} imported; {text}.", changed=True)


def _ready(store: Store, study: str) -> list[dict]:
    query = "SELECT * FROM incoming WHERE study = ? AND state = 'ready' ORDER BY at, path LIMIT ?"
    return store.query(query, [study, BATCH])


def import_batch(work: Work, row: dict, batch: list[dict]) -> int:
    """Imports a batch of files for the watch `row` and records the result of each; returns the number of new cases."""
    store, study = work.store, row["study"]
    hashes: dict[str, str] = {}
    fresh, added = list[dict](), 0
    for file in batch:
        state, note = _judge(store, study, file, hashes)
        if state is None:
            fresh.append(file)
        else:
            _note(store, file, state, note)
    with store.write() as db:  # before reading, so that the count is stored even if reading crashes this process
        db.conn.executemany(
            "UPDATE incoming SET tries = tries + 1 WHERE study = ? AND path = ?", [(study, f["path"]) for f in fresh]
        )
    if fresh:

        def on_progress(done: int, total: int) -> None:
            work.report({"message": f"Importing new files: {done} of {total}"})

        within = roots.Within([row["folder"], *roots.named(store)])
        files = [file["path"] for file in fresh]
        report = add_cases(store, study, files, on_progress=on_progress, copy=bool(row["copy"]), within=within)
        reasons = {r["path"]: r["reason"] for r in report.rejected}
        for file in fresh:
            reason = reasons.get(printable(file["path"]))
            _note(store, file, "failed" if reason else "taken", reason or "")
        added = report.accepted
    watch.say(store, study, f"{added} new cases imported, not scored yet.", changed=True)
    return added


def _judge(store: Store, study: str, file: dict, hashes: dict[str, str]) -> tuple[str | None, str]:
    """Returns (state, note) of a file to skip, or (None, "") for a file to import. `hashes` is {SHA-256: path}."""
    path = Path(file["path"])
    try:
        stat = path.stat()
        if (stat.st_size, stat.st_mtime_ns) != (file["size"], file["mtime"]):
            return "waiting", ""  # the file has changed again, so the next check starts over
        digest = file_sha256(path)
    except OSError as error:
        return "failed", f"cannot be read: {error.strerror or error}"
    same = store.one("SELECT name, path FROM cases WHERE study = ? AND sha256 = ? LIMIT 1", [study, digest])
    if same is not None:
        return "double", f"the study already has this file, as {same['name']}"
    if digest in hashes:
        return "double", f"the same file as {Path(hashes[digest]).name}"
    if store.one("SELECT 1 FROM cases WHERE study = ? AND path = ? LIMIT 1", [study, str(path)]) is not None:
        return "failed", "an earlier file of this name was imported and then overwritten: give the new one another name"
    if file["tries"] >= TRIES:
        return "failed", f"reading it crashed the process {TRIES} times: check whether the file is damaged"
    hashes[digest] = str(path)
    return None, ""


def _note(store: Store, file: dict, state: str, note: str) -> None:
    store.execute(
        "UPDATE incoming SET state = ?, note = ?, at = ? WHERE study = ? AND path = ?",
        [state, note, now(), file["study"], file["path"]],
    )


def chosen_run(store: Store, study: str, run: str | None) -> str | None:
    """Returns the run to score new cases: `run` if given, else the first run in Review, else the newest finished fit.

    Returns None if no run remains. Runs whose first scoring is pending are skipped, as it will include the new cases.
    """
    return next((c for c in _candidates(store, study, run) if to_be_scored(store, c) is None), None)


def _candidates(store: Store, study: str, run: str | None) -> list[str]:
    if run:
        return [run]
    query = (
        "SELECT id FROM runs WHERE study = ? AND kind = 'fit' AND status = 'done' AND archived = 0 AND binned IS NULL"
    )
    fits = store.query(query + " ORDER BY created DESC, id DESC", [study])
    return [r["id"] for r in (*scored_runs(store, study), *fits)]


def to_be_scored(store: Store, run: str) -> int | None:
    """Returns the id of the active job that will score a run for the first time, or None if there is no such job."""
    calibration = runs.get_run(store, run)["summary"].get("calibration")
    return None if calibration else queue.awaited(store, [run], "score")


def _unscored(store: Store, study: str, run: str | None) -> str:
    """Returns why no run scores the new cases."""
    awaited = [to_be_scored(store, c) for c in _candidates(store, study, run)]
    if awaited:
        return f"job {awaited[0]} will score them with the other cases"
    return "no fit is finished yet, so nothing is scored; train and fit a detector in Training"
