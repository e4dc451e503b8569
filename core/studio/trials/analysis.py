"""The analysis of a trial: its reads as arrays, and all figures of its report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from core.studio.db.store import Row, Store
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.patients import patients_of
from core.studio.review.decisions import DECISIONS
from core.studio.review.results import confusion
from core.studio.trials import localised, mrmc, plan, readers, roc
from core.studio.trials.localised import Mark, Marked
from core.studio.trials.roc import Figure

CODES = {"normal": 0, "unsure": 1, "abnormal": 2}  # as ratings; `unsure` counts as abnormal in binary decisions
UNREAD = -1
LEAST = 4  # smallest number of pixels of a lesion


@dataclass
class Reads:
    """All reads of a trial: t arms, r readers, n cases in the order of the plan.

    ratings, seconds: (t, r, n), NaN if unread. decisions: (t, r, n), from CODES. marks: [t][r][n]. again: by reader,
    the first and second decisions on cases read twice. machine, score: (n,), the run's results, UNREAD and NaN without
    any.
    """

    trial: Row
    arms: tuple[str, ...]
    readers: tuple[str, ...]
    cases: np.ndarray
    truth: np.ndarray
    masks: list[int | None]
    ratings: np.ndarray
    decisions: np.ndarray
    seconds: np.ndarray
    marks: list[list[list[list[list[float]]]]]
    again: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    machine: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    score: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def complete(self) -> np.ndarray:
        """The cases that every reader read in every arm, bool (n,); only these are analysed."""
        return np.asarray((self.decisions != UNREAD).all((0, 1)))


_READS = """SELECT p.reader, p.arm, r.case_id, r.stage, r.decision, r.seconds, t.rating, t.marks
  FROM trial_parts p JOIN trial_reads t ON t.part = p.id JOIN reviews r ON r.id = t.review AND r.active = 1
  WHERE p.trial = ? ORDER BY r.id"""


def collect(store: Store, trial: int) -> Reads:
    """Collects the valid reads of a trial; of several reads of a case in an arm the last, with the seconds of all."""
    row = plan.get(store, trial)
    cases = store.query("SELECT * FROM trial_cases WHERE trial = ? ORDER BY position", [trial])
    arms, names, positions = row["plan"].arms, row["plan"].readers, {c["case_id"]: i for i, c in enumerate(cases)}
    shape = (len(arms), len(names), len(cases))
    out = Reads(
        row, arms, names, np.array([c["case_id"] for c in cases]), np.array([c["truth"] == "abnormal" for c in cases]),
        [c["mask"] for c in cases], np.full(shape, np.nan), np.full(shape, UNREAD), np.full(shape, np.nan),
        [[[[] for _ in cases] for _ in names] for _ in arms],
    )  # fmt: skip
    repeated: dict[tuple[str, int], int] = {}
    for read in store.query(_READS, [trial]):
        code, j, k = CODES[read["decision"]], names.index(read["reader"]), positions[read["case_id"]]
        if read["arm"] == "repeat":
            repeated[read["reader"], k] = code
            continue
        arm = {"both": "unaided" if read["stage"] == "first" else "aided"}.get(read["arm"], read["arm"])
        at = (arms.index(arm), j, k)
        out.decisions[at], out.ratings[at] = code, code if read["rating"] is None else read["rating"]
        out.marks[at[0]][j][k] = json.loads(read["marks"])
        if read["seconds"] is not None:
            out.seconds[at] = np.nansum([out.seconds[at], read["seconds"]])
    for (reader, k), code in repeated.items():
        first = out.decisions[0, names.index(reader), k]
        if first != UNREAD:
            out.again.setdefault(reader, []).append((int(first), code))
    readings = store.query(
        "SELECT case_id, coalesce(flagged_roi, flagged) AS flagged, coalesce(score_roi, score) AS score FROM readings "
        "WHERE run = ? AND case_id IN (SELECT case_id FROM trial_cases WHERE trial = ?)",
        [row["run"], trial],
    )
    out.machine, out.score = np.full(len(cases), UNREAD), np.full(len(cases), np.nan)
    for reading in readings:
        k = positions[reading["case_id"]]
        out.machine[k] = UNREAD if reading["flagged"] is None else reading["flagged"]
        out.score[k] = np.nan if reading["score"] is None else reading["score"]
    return out


def lesions(store: Store, mask: int | None) -> list[np.ndarray]:
    """Splits a lesion mask into its connected components, bool (H, W), of at least LEAST pixels."""
    row = store.one("SELECT png FROM lesion_masks WHERE id = ?", [mask]) if mask else None
    if row is None:
        return []
    count, labels, stats, _ = cv2.connectedComponentsWithStats(decode_mask(row["png"]).astype(np.uint8), connectivity=8)
    return [labels == i for i in range(1, count) if stats[i, cv2.CC_STAT_AREA] >= LEAST]


def marked(store: Store, reads: Reads) -> list[list[list[Marked]]] | None:
    """Returns the hits and misses of marks, [t][r][n] of complete cases; None if the plan has no marks."""
    trial_plan = reads.trial["plan"]
    if not trial_plan.marks:
        return None
    complete = np.flatnonzero(reads.complete)
    truth = {k: lesions(store, reads.masks[k]) if reads.truth[k] else [] for k in map(int, complete)}
    sizes = {r["id"]: (r["height"], r["width"]) for r in store.query(
        "SELECT id, height, width FROM cases WHERE id IN (SELECT value FROM json_each(?))",
        [json.dumps(reads.cases.tolist())])}  # fmt: skip

    def read(rows: list[list[float]], k: int) -> Marked:
        shape = sizes[int(reads.cases[k])]
        return localised.hits([_mark(row, shape) for row in rows], truth[k], trial_plan.rule)

    return [[[read(reader_marks[k], int(k)) for k in complete] for reader_marks in arm] for arm in reads.marks]


def _mark(row: list[float], shape: tuple[int, int]) -> Mark:
    x0, y0, x1, y1, rating = row
    mask = np.zeros(shape, bool)
    mask[int(y0) : int(np.ceil(y1)) + 1, int(x0) : int(np.ceil(x1)) + 1] = True
    return Mark(rating, ((x0 + x1) / 2, (y0 + y1) / 2), mask if (x1 - x0) * (y1 - y0) > 1 else None)


def figures(store: Store, trial: int, method: str = "jackknife") -> dict[str, Any]:
    """Computes all figures of the report as values for JSON. Differences are unaided minus aided."""
    reads = collect(store, trial)
    complete = reads.complete
    truth = reads.truth[complete]
    out: dict[str, Any] = {"flow": _flow(store, reads), "arms": list(reads.arms), "readers": list(reads.readers)}
    out["kappa"] = _kappas(reads)
    out["seconds"] = _seconds(reads)
    if min(truth.sum(), (~truth).sum()) < 2:
        return out | {"enough": False}
    ratings, decided = reads.ratings[..., complete], reads.decisions[..., complete] > 0
    area = roc.area(ratings, truth)
    correct = decided == truth
    measures: dict[str, Figure] = {
        "Area under the ROC curve": area,
        "Sensitivity": roc.share(correct, truth, True),
        "Specificity": roc.share(correct, truth, False),
    }
    marks = marked(store, reads)
    if marks is not None and all(case.lesions for case, sick in zip(marks[0][0], truth, strict=True) if sick):
        rows = [[localised.jafroc(reader_marks, truth) for reader_marks in arm] for arm in marks]
        measures["Weighted JAFROC"] = Figure(*(np.array([[f[i] for f in row] for row in rows]) for i in range(3)))
        out["froc"] = [
            [np.stack(localised.froc(reader_marks, truth)).tolist() for reader_marks in arm] for arm in marks
        ]
        out["afroc"] = [
            [np.stack(localised.afroc(reader_marks, truth)).tolist() for reader_marks in arm] for arm in marks
        ]
    compared = len(reads.arms) > 1
    out["analysis"] = {name: mrmc.analyse(f, method).plain() for name, f in measures.items()} if compared else {}
    errors = np.sqrt(np.maximum(np.diag(mrmc.covariances(area, "delong")), 0)).reshape(area.value.shape)
    out["by_reader"] = [
        [_of_reader(ratings[i, j], decided[i, j], truth, float(area.value[i, j]), float(errors[i, j]))
         for j in range(len(reads.readers))]
        for i in range(len(reads.arms))
    ]  # fmt: skip
    if marks is not None and "Weighted JAFROC" in measures:
        for i, j in np.ndindex(*area.value.shape):
            out["by_reader"][i][j]["jafroc"] = float(measures["Weighted JAFROC"].value[i, j])
    judged = complete & (reads.machine != UNREAD)
    if judged.any():
        out["machine"] = confusion(reads.truth[judged], reads.machine[judged] > 0)
    if compared:
        machine = reads.machine[complete] > 0 if judged[complete].all() else None
        reader_changes = [
            readers.changes(decided[0, j], decided[1, j], truth, machine) for j in range(len(reads.readers))
        ]
        out["changes"] = reader_changes
    return out | {"enough": True, "method": method}


def _of_reader(ratings: np.ndarray, decided: np.ndarray, truth: np.ndarray, area: float, error: float) -> dict:
    fit = roc.binormal(ratings, truth)
    low, high = roc.interval(area, error)
    counts = confusion(truth, decided)
    return {
        "area": {"value": area, "low": low, "high": high},
        "binormal": fit and {"a": fit.a, "b": fit.b, "area": fit.area, "error": fit.error},
        "points": np.stack(roc.points(ratings, truth), 1).tolist(),
        "sensitivity": counts["sensitivity"],
        "specificity": counts["specificity"],
    }


def _flow(store: Store, reads: Reads) -> dict[str, Any]:
    """Counts the cases in the study, in the trial, read and analysed, as in a CONSORT flow diagram."""
    study, splits = reads.trial["study"], "SELECT label, count(*) AS n FROM cases WHERE study = ? AND split = 'test'"
    labels = {r["label"]: r["n"] for r in store.query(f"{splits} GROUP BY label", [study])}
    patients = patients_of(store, study, reads.cases)
    complete = reads.complete
    by_reader = {
        name: {arm: int((reads.decisions[i, j] != UNREAD).sum()) for i, arm in enumerate(reads.arms)}
        for j, name in enumerate(reads.readers)
    }
    return {
        "in_study": sum(labels.values()),
        "labels": labels,
        "in_trial": len(reads.cases),
        "normal": int((~reads.truth).sum()),
        "abnormal": int(reads.truth.sum()),
        "patients": None if patients is None else len(set(patients.tolist())),
        "read": by_reader,
        "analysed": {"normal": int((~reads.truth & complete).sum()), "abnormal": int((reads.truth & complete).sum())},
        "left_out": int((~complete).sum()),
    }


def _kappas(reads: Reads) -> dict[str, Any]:
    """Computes kappa between readers by arm, over complete cases, and within readers, over the cases read twice."""
    complete = reads.complete
    pairs = {
        arm: readers.between(reads.decisions[i][:, complete], list(reads.readers)) for i, arm in enumerate(reads.arms)
    }
    within = {name: readers.kappa(*np.array(decisions).T) for name, decisions in sorted(reads.again.items())}
    return {"between": pairs, "within": within, "kinds": list(DECISIONS)}


def _seconds(reads: Reads) -> dict[str, Any]:
    by_reader = {
        name: readers.times({arm: reads.seconds[i, j] for i, arm in enumerate(reads.arms)})
        for j, name in enumerate(reads.readers)
    }
    ratio = readers.time_ratio(reads.seconds[0], reads.seconds[1]) if len(reads.arms) > 1 else None
    return {"by_reader": by_reader, "ratio": ratio}
