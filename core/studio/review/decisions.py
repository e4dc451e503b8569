"""Readers' decisions and findings on cases, both recorded in the audit trail."""

from __future__ import annotations

import hashlib
import json
import time

from core.studio.db import audit, limits
from core.studio.db.store import NotFound, Store, now
from core.studio.review.context import RequestContext
from core.studio.review.masks import version_shown

# Decisions are added and never overwritten. Undo and redo work across the cases of a study.

DECISIONS = ("normal", "abnormal", "unsure")


def decide(
    context: RequestContext,
    decision: str,
    *,
    comment: str = "",
    seconds: float | None = None,
    shown: dict | None = None,
    adjudication: bool = False,
    rating: float | None = None,
    token: str | None = None,
) -> dict:
    """Stores a reader's decision on the requested case.

    decision: "normal", "abnormal" or "unsure".
    seconds: Time that the reader took for the decision.
    shown: Display settings at the time of the decision, which are stored with it.
    adjudication: Whether the decision is an adjudication between readers.
    rating: Suspicion from 0 to 100, which some trials require.
    token: Id of the request. A repeated request with the same id gets the same answer and stores nothing.

    Returns {"review": id of the stored decision, "case": id of the case, "stage", "decision"}. The stage is
    "adjudication", "second" (after a first decision in blind reading) or "first". Raises ValueError if the decision is
    unknown or a rating is missing or unexpected, and TooMuch if there are too many decisions.
    """
    trial = context.trial
    if (rating is None) == bool(trial and trial["rated"]):
        raise ValueError("Rate the case from 0 to 100 first." if rating is None else "This reading takes no rating.")
    if decision not in DECISIONS:
        raise ValueError(f"a decision is one of {', '.join(DECISIONS)}, not {decision!r}")
    store, reader, case, run = context.store, context.reader, context.asked_case, context.run
    token = _request_key(token, reader, "decide", case["id"])
    with store.write() as db:
        earlier = _answered(store, token)
        if earlier is not None:
            return earlier
        limits.demand_rows(store, "review", "reviews", "case_id = ? AND reader = ?", [case["id"], reader])
        standing = _standing(context, case["id"])
        committed = any(r["stage"] == "first" and r["id"] > context.first_review for r in standing)
        stage = "first"
        if adjudication:
            stage = "adjudication"
        elif context.two_stages and committed:
            stage = "second"
        if context.blinded and (not committed if trial is None else context.hides(case["id"])):
            shown, run = {"blind": True}, None
        row = {
            "case_id": case["id"],
            "reader": reader,
            "decision": decision,
            "comment": comment,
            "created": now(),
            "seconds": seconds,
            "run": run,
            "shown": json.dumps(shown or {}),
            "stage": stage,
            "active": 1,
        }
        marks = ", ".join("?" * len(row))
        review = db.execute(f"INSERT INTO reviews ({', '.join(row)}) VALUES ({marks})", list(row.values())).lastrowid
        sha256 = audit.review_sha256(store.first("SELECT * FROM reviews WHERE id = ?", [review]))
        db.execute("DELETE FROM undone WHERE reader = ? AND study = ?", [reader, context.study])
        audit.record(
            store,
            reader,
            "decision",
            study=context.study,
            case_id=case["id"],
            before=next((r["decision"] for r in standing if r["stage"] == stage), None),
            after={"review": review, "decision": decision, "stage": stage, "run": run, "sha256": sha256},
            shown=shown,
            seconds=seconds,
        )
        if trial is not None:
            _read_in_trial(context, trial, review or 0, decision, rating)
        answer = {"review": review, "case": case["id"], "stage": stage, "decision": decision}
        _keep(store, token, answer)
    return answer


def _read_in_trial(context: RequestContext, trial: dict, review: int, decision: str, rating: float | None) -> None:
    """Stores a decision in a trial with its rating and annotations; the first decision freezes the trial's plan."""
    store = context.store
    certain = DECISIONS.index(decision) if rating is None else rating
    marks = [[*f["box"], f["rating"] if f["rating"] is not None else certain] for f in _marks_of(context) if f["box"]]
    store.execute(
        "INSERT INTO trial_reads (review, part, rating, marks) VALUES (?, ?, ?, ?)",
        [review, trial["part"], rating, json.dumps(marks)],
    )
    if trial["frozen"] is None:
        store.execute("UPDATE trials SET frozen = ? WHERE id = ? AND frozen IS NULL", [now(), trial["id"]])
        after = {"trial": trial["id"], "digest": trial["digest"]}
        audit.record(store, context.reader, "trial-frozen", study=context.study, after=after)


def _marks_of(context: RequestContext) -> list[dict]:
    rows = context.store.query(
        "SELECT f.box, m.rating FROM findings f LEFT JOIN trial_marks m ON m.finding = f.id "
        "WHERE f.case_id = ? AND f.reader = ? AND f.created >= ? ORDER BY f.id",
        [context.asked_case["id"], context.reader, context.session["created"] if context.session else ""],
    )
    return [{**row, "box": row["box"] and json.loads(row["box"])} for row in rows]


def _standing(context: RequestContext, case_id: int) -> list[dict]:
    query = "SELECT id, stage, decision FROM reviews WHERE case_id = ? AND reader = ? AND active = 1 ORDER BY id DESC"
    return context.store.query(query, [case_id, context.reader])


def undo(context: RequestContext, token: str | None = None) -> dict | None:
    """Undoes the reader's last decision in the study, or in the open session, so that the one before it counts again.

    Returns {"case": id of the case, "review": id of the undone decision, "decision": decision that now counts, or
    None}, or None if there is nothing to undo. Raises ValueError if the last decision is a blind first decision,
    because the reader has seen the results after that decision.
    """
    store, study, reader = context.store, context.study, context.reader
    token = _request_key(token, reader, "undo", study)
    with store.write() as db:
        earlier = _answered(store, token)
        if earlier is not None:
            return earlier
        last = store.one(
            "SELECT r.* FROM reviews r JOIN cases c ON c.id = r.case_id WHERE r.reader = ? AND c.study = ? "
            "AND r.active = 1 AND r.id > ? ORDER BY r.id DESC LIMIT 1",
            [reader, study, context.first_review],
        )
        if last is None:
            return None
        if last["stage"] == "first" and json.loads(last["shown"]).get("blind"):
            raise ValueError("A blind first decision cannot be undone. Give a second decision on the case instead.")
        db.execute("UPDATE reviews SET active = 0 WHERE id = ?", [last["id"]])
        db.execute("INSERT OR REPLACE INTO undone VALUES (?, ?, ?)", [last["id"], reader, study])
        return _record_change(context, "undo", last, token)


def redo(context: RequestContext, token: str | None = None) -> dict | None:
    """Restores the decision that the reader undid last, and returns the same dictionary as `undo`."""
    store, study, reader = context.store, context.study, context.reader
    token = _request_key(token, reader, "redo", study)
    with store.write() as db:
        earlier = _answered(store, token)
        if earlier is not None:
            return earlier
        query = (
            "SELECT r.* FROM undone u JOIN reviews r ON r.id = u.review_id "
            "WHERE u.reader = ? AND u.study = ? ORDER BY r.id LIMIT 1"
        )
        last = store.one(query, [reader, study])
        if last is None:
            return None
        db.execute("UPDATE reviews SET active = 1 WHERE id = ?", [last["id"]])
        db.execute("DELETE FROM undone WHERE review_id = ?", [last["id"]])
        return _record_change(context, "redo", last, token)


def _record_change(context: RequestContext, kind: str, review: dict, token: str | None) -> dict:
    standing = _standing(context, review["case_id"])
    counts = next((r for r in standing if r["stage"] == review["stage"]), None)
    audit.record(
        context.store,
        context.reader,
        kind,
        study=context.study,
        case_id=review["case_id"],
        before={"review": review["id"], "decision": review["decision"]},
        after=counts and {"review": counts["id"], "decision": counts["decision"]},
    )
    answer = {"case": review["case_id"], "review": review["id"], "decision": counts and counts["decision"]}
    _keep(context.store, token, answer)
    return answer


def _request_key(token: str | None, reader: str, act: str, subject: int | str) -> str | None:
    """Returns a key that is unique to the token, reader, kind of request and case or study, or None without a token."""
    return hashlib.sha256(json.dumps([token, reader, act, subject]).encode()).hexdigest() if token else None


def _answered(store: Store, token: str | None) -> dict | None:
    row = store.one("SELECT answer FROM answered WHERE token = ?", [token]) if token else None
    return json.loads(row["answer"]) if row else None


def _keep(store: Store, token: str | None, answer: dict) -> None:
    if token:
        store.db.execute("INSERT INTO answered VALUES (?, ?, ?)", [token, now(), json.dumps(answer)])


LABELS = ("polyp", "lesion", "artefact")
LABELS_BY_KIND = {  # kind of image (core/studio/ingest/kind.py): suitable labels
    "endoscopy": ("polyp", "ulcer", "inflammation", "bleeding", "artefact"),
    "fundus": ("microaneurysm", "haemorrhage", "hard exudate", "soft exudate", "new vessels", "artefact"),
    "xray": ("opacity", "nodule", "effusion", "pneumothorax", "device", "artefact"),
    "ultrasound": ("mass", "cyst", "calcification", "haemorrhage", "artefact"),
    "other": ("lesion", "artefact"),
}


def finding_labels(store: Store, study: str) -> list[str]:
    """Returns the labels that readers of the study can give a finding."""
    return store.setting(f"labels:{study}", list(LABELS))


def fit_labels(store: Store, study: str, kind: str, by: str) -> list[str]:
    """Sets a study's labels to the defaults for a kind of image, unless the study has custom labels or any findings.

    Returns the study's labels. kind: Key of LABELS_BY_KIND.
    """
    chosen = store.setting(f"labels:{study}")
    has_own = chosen is not None and tuple(chosen) not in LABELS_BY_KIND.values()
    used = "SELECT 1 FROM findings f JOIN cases c ON c.id = f.case_id WHERE c.study = ? LIMIT 1"
    if has_own or store.one(used, [study]) is not None:
        return finding_labels(store, study)
    return set_labels(store, study, list(LABELS_BY_KIND.get(kind, LABELS)), by)


def set_labels(store: Store, study: str, names: list[str], by: str) -> list[str]:
    """Replaces a study's finding labels and returns the new labels without duplicates; existing findings keep theirs.

    Raises ValueError if no label is given.
    """
    clean = list(dict.fromkeys(n.strip()[:60] for n in names if n.strip()))
    if not clean:
        raise ValueError("a study needs at least one label for findings")
    with store.write():
        before = finding_labels(store, study)
        store.set_setting(f"labels:{study}", clean)
        audit.record(store, by, "labels", study=study, before=before, after=clean)
    return clean


def add_finding(
    context: RequestContext,
    label: str,
    comment: str = "",
    mask_version: int | None = None,
    box: tuple[float, float, float, float] | None = None,
    rating: float | None = None,
) -> int:
    """Records a finding, which is a labelled observation, on the requested case and returns the finding's id.

    mask_version: Version of the reader's lesion mask to which the finding refers, or None.
    box: Corners (x0, y0, x1, y1) of a box in pixels. A point is a box whose corners coincide.
    rating: Suspicion from 0 to 100, in a trial that asks for ratings.

    Raises ValueError if the box reaches outside the image, the label is empty or the rating is unexpected, and TooMuch
    if the reader has too many findings on the case.
    """
    store, reader, case = context.store, context.reader, context.asked_case
    if box is not None:
        x0, y0, x1, y1 = box
        if not (0 <= x0 <= x1 <= case["width"] and 0 <= y0 <= y1 <= case["height"]):
            raise ValueError("The box or point must lie inside the image.")
    if not label.strip():
        raise ValueError("a finding needs a label")
    if rating is not None and not (context.trial and context.trial["rated"] and 0 <= rating <= 100):
        raise ValueError("A finding takes a rating, from 0 to 100, only in a trial that asks for ratings.")
    fields = {"mask_version": mask_version, "label": label.strip()[:60], "comment": comment[:4000]}
    with store.write() as db:
        limits.demand_rows(store, "finding", "findings", "case_id = ? AND reader = ?", [case["id"], reader])
        row = insert_finding(store, case["id"], reader, fields, box, now())
        number = row["id"]
        if rating is not None:
            db.execute("INSERT INTO trial_marks VALUES (?, ?)", [number, rating])
            row["rating"] = rating
        after = {"finding": number} | {k: v for k, v in row.items() if k not in ("id", "label", "comment")}
        audit.record(store, reader, "finding", study=context.study, case_id=case["id"], after=after)
    return number


def insert_finding(
    store: Store, case_id: int, reader: str, row: dict, box: tuple[float, ...] | None, created: str
) -> dict:
    """Inserts a finding on a case and returns the stored row. row: Columns "mask_version", "label" and "comment"."""
    with store.write() as db:
        # The id is the time in microseconds, because consecutive ids would reveal the number of findings.
        last = store.first("SELECT coalesce(max(id), 0) AS id FROM findings")["id"]
        row = {
            "id": max(time.time_ns() // 1000, last + 1),
            "case_id": case_id,
            **row,
            "box": None if box is None else json.dumps([round(v, 2) for v in box]),
            "reader": reader,
            "created": created,
        }
        db.execute(f"INSERT INTO findings ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    return row


def findings_of(context: RequestContext, case_id: int) -> list[dict]:
    """Lists the findings on a case as [{"id", "label", "comment", "reader", "created", "mask_version", "box"}], oldest
    first. A blind reader gets only the reader's own findings."""
    rows = context.store.query(
        "SELECT id, label, comment, reader, created, mask_version, box FROM findings WHERE case_id = ? ORDER BY id",
        [case_id],
    )
    visible = [row for row in rows if not context.blinded or row["reader"] == context.reader]
    if context.trial is not None and context.session is not None:  # without findings from the trial's other sessions
        visible = [row for row in visible if row["created"] >= context.session["created"]]
    for row in visible:
        row["box"] = row["box"] and json.loads(row["box"])
        row["mask_version"] = version_shown(context, case_id, row["mask_version"])
    return visible


def case_of_finding(store: Store, finding: int, reader: str) -> int:
    """Returns the case id of one of the reader's own findings. Raises NotFound if the reader has no such finding."""
    row = store.one("SELECT case_id FROM findings WHERE id = ? AND reader = ?", [finding, reader])
    if row is None:
        raise NotFound("You have no such finding.")
    return int(row["case_id"])


def remove_finding(context: RequestContext, finding: int) -> None:
    """Deletes one of the reader's own findings on the requested case. Raises NotFound if there is no such finding."""
    store, reader, case = context.store, context.reader, context.asked_case["id"]
    with store.write() as db:
        row = store.one("SELECT * FROM findings WHERE id = ? AND case_id = ?", [finding, case])
        if row is None or row["reader"] != reader:
            raise NotFound("You have no such finding.")
        db.execute("DELETE FROM findings WHERE id = ?", [finding])
        audit.record(store, reader, "finding-removed", study=context.study, case_id=case, before={"finding": finding})
