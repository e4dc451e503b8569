"""Stores the plans of reader trials, the cases of trials with their ground truth, and the readers' reading lists.

A plan can be changed until the first decision is stored. It is then frozen, and its digest is in the audit trail
(core/studio/review/decisions.py). core/studio/review/context.py decides what readers see during a trial.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from core.studio.db import audit
from core.studio.db.store import NotFound, Row, Store, now
from core.studio.ingest.masks import reference_masks
from core.studio.ingest.records import study_row
from core.studio.review import people, sessions
from core.studio.review.agreement import opinions
from core.studio.trials.options import ARMS, TrialPlan


def make(store: Store, study: str, plan: TrialPlan, by: str, trial: int | None = None) -> int:
    """Saves a plan as a new trial, or as the new plan of `trial`, and returns the id of the trial.

    The cases and their ground truth are fixed at this time. Raises ValueError if a reader does not have the role
    reader, the run is unknown or has not scored all cases, too few cases have ground truth, or the trial is frozen.
    """
    study_row(store, study)
    for reader in plan.readers:
        if people.role_of(store, reader) != "reader":
            raise ValueError(f"{reader} must have the role reader, because other roles see what a trial hides.")
    rows = _with_truth(store, study, plan)
    draw = random.Random(f"cases {plan.seed}")
    kinds = {kind: [r for r in rows if r["truth"] == kind] for kind in ("normal", "abnormal")}
    sample_sizes = {"normal": plan.normal, "abnormal": plan.abnormal} if plan.cases == "drawn" else {}
    for kind, number in sample_sizes.items():
        if len(kinds[kind]) < number:
            raise ValueError(f"Only {len(kinds[kind])} {kind} test cases have ground truth; the plan needs {number}.")
        kinds[kind] = draw.sample(kinds[kind], number)
    if min(map(len, kinds.values())) < 2:
        raise ValueError("A trial needs at least two normal and two abnormal test cases with ground truth.")
    chosen = sorted(kinds["normal"] + kinds["abnormal"], key=lambda r: r["id"])
    _check_run(store, study, plan, [r["id"] for r in chosen])
    if plan.repeats > len(chosen):
        raise ValueError(f"Only the {len(chosen)} cases of the trial can be read again, not {plan.repeats}.")
    again = set(draw.sample(range(len(chosen)), plan.repeats))
    digest = _digest(plan, chosen, again)
    with store.write() as db:
        row = {"study": study, "name": plan.name.strip(), "plan": plan.to_json(), "run": plan.run or None,
               "digest": digest, "made_by": by, "created": now()}  # fmt: skip
        if trial is None:
            trial = db.execute(
                f"INSERT INTO trials ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
            ).lastrowid
        else:
            if get(store, trial)["frozen"]:
                raise ValueError("The plan is frozen because a decision has been stored: plan another trial.")
            _withdraw(store, trial)
            changes = ", ".join(f"{name} = ?" for name in row)
            db.execute(f"UPDATE trials SET {changes}, started = NULL WHERE id = ?", [*row.values(), trial])
        listed = ((trial, i, r["id"], r["truth"], r["mask"], int(i in again)) for i, r in enumerate(chosen))
        db.conn.executemany("INSERT INTO trial_cases VALUES (?, ?, ?, ?, ?, ?)", listed)
        part_rows = ((trial, reader, n, arm) for reader, arms in parts_of(plan).items() for n, arm in enumerate(arms))
        db.conn.executemany("INSERT INTO trial_parts (trial, reader, number, arm) VALUES (?, ?, ?, ?)", part_rows)
        audit.record(store, by, "trial-plan", study=study, after={"trial": trial, "digest": digest})
    return int(trial or 0)


def parts_of(plan: TrialPlan) -> dict[str, list[str]]:
    """Returns the arms of each reader's lists, in order. In a crossover, a random half of the readers begin aided."""
    shuffled = list(plan.readers)
    random.Random(f"readers {plan.seed}").shuffle(shuffled)
    repeats = ["repeat"] * bool(plan.repeats)
    return {reader: [*ARMS[plan.design]][:: 1 if i % 2 else -1] + repeats for i, reader in enumerate(shuffled)}


def _with_truth(store: Store, study: str, plan: TrialPlan) -> list[Row]:
    """Returns the test cases with ground truth: id, sha256, truth and mask (id of the lesion mask, or None)."""
    rows = store.query(
        "SELECT c.id, c.sha256, c.label AS truth, (SELECT m.id FROM lesion_masks m WHERE m.case_id = c.id "
        "AND m.reader IN (SELECT value FROM json_each(?)) ORDER BY m.version DESC LIMIT 1) AS mask "
        "FROM cases c WHERE c.study = ? AND c.split = 'test' ORDER BY c.id",
        [json.dumps(plan.panel), study],
    )
    references = reference_masks(store, study)
    for row in rows:
        row["mask"] = row["mask"] or references.get(row["id"])
    if plan.reference == "panel":
        decisions = opinions(store, study)
        query = "SELECT k.case_id, k.decision FROM current_reviews k JOIN cases c ON c.id = k.case_id "
        settled = store.query(query + "WHERE c.study = ? AND k.stage = 'adjudication'", [study])
        ends = {r["case_id"]: r["decision"] for r in settled} if plan.disagreement == "adjudication" else {}
        for row in rows:
            votes = [decisions.get(row["id"], {}).get(member) for member in plan.panel]
            row["truth"] = _of_panel(votes, plan.disagreement, ends.get(row["id"]))
    judged = [row for row in rows if row["truth"] in ("normal", "abnormal")]
    if plan.marks and not any(row["mask"] for row in judged if row["truth"] == "abnormal"):
        raise ValueError("Readers mark lesions in this plan, but no abnormal case has a lesion mask to compare with.")
    return [row for row in judged if row["mask"] or row["truth"] == "normal" or not plan.marks]


def _of_panel(votes: list[str | None], disagreement: str, settled: str | None) -> str | None:
    if None in votes:
        return None  # some members have not read the case
    if len(set(votes)) == 1:
        return votes[0]
    if disagreement == "adjudication":
        return settled
    ill, well = votes.count("abnormal"), votes.count("normal")
    return None if disagreement == "left out" or ill == well else "abnormal" if ill > well else "normal"


def _check_run(store: Store, study: str, plan: TrialPlan, cases: list[int]) -> None:
    if not plan.run:
        return
    if store.one("SELECT 1 FROM runs WHERE id = ? AND study = ? AND binned IS NULL", [plan.run, study]) is None:
        raise NotFound(f"{study} has no run {plan.run!r}.")
    query = "SELECT count(*) AS n FROM readings WHERE run = ? AND score IS NOT NULL AND case_id IN (SELECT value FROM "
    if store.first(f"{query}json_each(?))", [plan.run, json.dumps(cases)])["n"] < len(cases):
        raise ValueError(f"The run {plan.run} has not scored every case of the trial; score it first.")


def _digest(plan: TrialPlan, cases: list[Row], again: set[int]) -> str:
    """Returns the SHA-256 of the plan and of each case's file, truth and lesion mask, which fix all reading orders."""
    listed = [[r["id"], r["sha256"], r["truth"], r["mask"], i in again] for i, r in enumerate(cases)]
    text = json.dumps({"plan": plan.to_dict(), "cases": listed}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _withdraw(store: Store, trial: int) -> None:
    """Deletes the cases and lists of a trial, and ends its open reading sessions, which contain no decisions."""
    ends = "UPDATE reading_sessions SET ended = ?, last_review = first_review WHERE ended IS NULL AND id IN "
    store.execute(f"{ends}(SELECT session FROM trial_parts WHERE trial = ?)", [now(), trial])
    for table in ("trial_cases", "trial_parts"):
        store.execute(f"DELETE FROM {table} WHERE trial = ?", [trial])


def get(store: Store, trial: int) -> dict[str, Any]:
    """Returns the row of a trial, with its plan as a `TrialPlan`. Raises NotFound if the trial is unknown."""
    row = store.one("SELECT * FROM trials WHERE id = ?", [trial])
    if row is None:
        raise NotFound(f"Unknown trial {trial}.")
    return {**row, "plan": TrialPlan.from_dict(json.loads(row["plan"]))}


def of_study(store: Store, study: str) -> list[Row]:
    """Returns the trials of a study, newest first: [{"id"}]. Raises NotFound if the study is unknown."""
    study_row(store, study)
    return store.query("SELECT id FROM trials WHERE study = ? ORDER BY id DESC", [study])


def plan_defaults() -> dict[str, Any]:
    """Returns the default value of each option of a plan, by option name."""
    return {f.name: f.default for f in fields(TrialPlan)}


def start(store: Store, trial: int, by: str) -> None:
    """Opens a trial for its readers, who from then on see nothing of the study except their lists.

    Raises ValueError if the trial has already started, or if a reader takes part in another open trial of the study or
    no longer has the role reader.
    """
    with store.write() as db:
        row = get(store, trial)
        if row["started"]:
            raise ValueError("The trial has already started.")
        for reader in row["plan"].readers:
            if people.role_of(store, reader) != "reader":
                raise ValueError(f"{reader} must have the role reader, because other roles see what a trial hides.")
            if row["study"] in {r["study"] for r in store.query(sessions.IN_TRIALS, {"reader": reader})}:
                raise ValueError(f"{reader} takes part in another open trial of this study: close that trial first.")
        db.execute("UPDATE trials SET started = ? WHERE id = ?", [now(), trial])
        audit.record(store, by, "trial-start", study=row["study"], after={"trial": trial, "digest": row["digest"]})


def close(store: Store, trial: int, by: str) -> None:
    """Closes a trial, so that its report can be written and its readers see the study again.

    Cases without a decision stay unread. Raises ValueError if the trial is not open.
    """
    with store.write() as db:
        row = get(store, trial)
        if not row["started"] or row["closed"]:
            raise ValueError("Only an open trial can be closed.")
        db.execute("UPDATE trials SET closed = ? WHERE id = ?", [now(), trial])
        query = "SELECT p.reader FROM trial_parts p JOIN reading_sessions h ON h.id = p.session "
        for trial_part in store.query(f"{query}WHERE p.trial = ? AND h.ended IS NULL", [trial]):
            sessions.end_session(store, trial_part["reader"], by)
        audit.record(store, by, "trial-close", study=row["study"], after={"trial": trial, "digest": row["digest"]})


_PARTS = """SELECT p.id, p.reader, p.number, p.arm, p.session, h.created AS opened, h.ended,
  (SELECT count(*) FROM trial_cases c WHERE c.trial = p.trial AND (p.arm != 'repeat' OR c.repeated)) AS cases,
  (SELECT count(DISTINCT r.case_id) FROM trial_reads t JOIN reviews r ON r.id = t.review AND r.active
    WHERE t.part = p.id) AS read
  FROM trial_parts p LEFT JOIN reading_sessions h ON h.id = p.session WHERE p.trial = ? ORDER BY p.reader, p.number"""


def progress(store: Store, trial: int) -> list[Row]:
    """Returns a trial's reading lists: reader, arm, number of cases, number of read cases, and start and end time."""
    return store.query(_PARTS, [trial])


def lists_of(store: Store, reader: str) -> list[dict[str, Any]]:
    """Returns the open trials of a reader, each with the reader's current list.

    part: Number of the current list, counted from 1; `parts` is the number of the reader's lists.
    cases: Number of cases in the current list; `read` is the number of these that have been read.
    state: `ready` to be opened, `open`, `waits` (for the wash-out to end at the time `opens`) or `done`.
    The result does not reveal the arms of the lists.
    """
    query = (
        "SELECT DISTINCT t.id, t.study, t.name, t.plan FROM trials t JOIN trial_parts p ON p.trial = t.id "
        "WHERE p.reader = ? AND t.started IS NOT NULL AND t.closed IS NULL ORDER BY t.id"
    )
    return [{"trial": t["id"], "study": t["study"], "name": t["name"], **_next(store, t, reader)} for t in
            store.query(query, [reader])]  # fmt: skip


def _next(store: Store, trial: Row, reader: str) -> dict[str, Any]:
    reader_parts = [p for p in progress(store, trial["id"]) if p["reader"] == reader]
    trial_part = next((p for p in reader_parts if p["ended"] is None), reader_parts[-1])
    ended = next(
        (p["ended"] for p in reversed(reader_parts) if p["ended"] and p["number"] < trial_part["number"]), None
    )
    days = json.loads(trial["plan"])["washout"]
    opens = _later(ended, days) if ended else None
    state = (
        "done"
        if trial_part["ended"]
        else "open"
        if trial_part["session"]
        else "waits"
        if opens and opens > now()
        else "ready"
    )
    out = {
        "part": trial_part["number"] + 1,
        "parts": len(reader_parts),
        "cases": trial_part["cases"],
        "read": trial_part["read"],
    }
    return out | {"state": state, "opens": opens if state == "waits" else None}


def _later(when: str, days: int) -> str:
    moment = datetime.fromisoformat(when.replace("Z", "+00:00")) + timedelta(days=days)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def open_part(store: Store, trial: int, reader: str) -> int:
    """Opens a reader's current list, with the cases in random order, and returns the id of its reading session.

    Raises ValueError during the wash-out and after the last list, and NotFound if the trial is not open or the reader
    does not take part in it.
    """
    with store.write() as db:
        listed = next((row for row in lists_of(store, reader) if row["trial"] == trial), None)
        if listed is None:
            raise NotFound("You do not take part in this trial.")
        if listed["state"] == "done":
            raise ValueError("You have read all of your lists. Thank you.")
        if listed["state"] == "waits":
            raise ValueError(f"Your next list opens on {listed['opens'][:10]}.")
        trial_part = next(
            p for p in progress(store, trial) if p["reader"] == reader and p["number"] == listed["part"] - 1
        )
        if trial_part["session"]:
            return int(trial_part["session"])
        row = get(store, trial)
        only = " AND repeated" if trial_part["arm"] == "repeat" else ""
        (cases,) = store.columns(f"SELECT case_id FROM trial_cases WHERE trial = ?{only} ORDER BY position", [trial])
        order = list(cases)
        random.Random(f"order {row['plan'].seed} {reader} {trial_part['number']}").shuffle(order)
        number = sessions.start_session(
            store, row["study"], reader, order, blind=True, choice="trial",
            run=row["run"] if trial_part["arm"] in ("aided", "both") else None,
        )  # fmt: skip
        db.execute("UPDATE trial_parts SET session = ? WHERE id = ?", [number, trial_part["id"]])
    return number
