"""Computes the results of a trial by arm from the readers' decisions, ratings and lesion marks.

A mark is a hit if it is on a lesion, and otherwise a false positive. Lesions without a hit and cases without
a false positive are rated minus infinity. The free-response analysis follows Chakraborty and Berbaum, Medical Physics
31 (2004) 2313, with the lesion weights of Chakraborty and Zhai, ibid. 43 (2016) 5051.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import scipy  # its modules load on first use; stats takes a second

from core.studio.db.store import Row, Store
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.patients import patients_of
from core.studio.review.agreement import cohen
from core.studio.review.decisions import DECISIONS
from core.studio.review.results import confusion, wilson
from core.studio.trials import mrmc, plan
from core.studio.trials.mrmc import Figure, of_kernel
from core.studio.trials.options import RULES

CODES = {"normal": 0, "unsure": 1, "abnormal": 2}  # as ratings; `unsure` counts as abnormal in binary decisions
UNREAD = -1
LEAST = 4  # minimum number of pixels in a lesion; smaller components are ignored


@dataclass
class Reads:
    """All decisions of r readers in t arms on n cases of a trial, in the order of the plan.

    trial: Row of the trial, as returned by `plan.get`.
    cases: Ids of the cases, `(n,)`; `truth` is True for abnormal cases, `(n,)`.
    masks: Id of each case's lesion mask, or None.
    ratings: Ratings of the cases, `(t, r, n)`, NaN if missing; `seconds` contains the reading times in the same form.
    decisions: Codes of the decisions as in CODES, `(t, r, n)`, or UNREAD.
    marks: Lists of lesion marks [x0, y0, x1, y1, rating] in pixels, indexed [arm][reader][case].
    again: For each reader, the pairs of decision codes (first, second) on the cases that were read twice.
    machine: Whether the trial's run flags each case (0, 1 or UNREAD), `(n,)`; `score` contains its scores or NaN.
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
        """Boolean mask `(n,)` of the cases that every reader has read in every arm. Only these cases are analysed."""
        return np.asarray((self.decisions != UNREAD).all((0, 1)))


_READS = """SELECT p.reader, p.arm, r.case_id, r.stage, r.decision, r.seconds, t.rating, t.marks
  FROM trial_parts p JOIN trial_reads t ON t.part = p.id JOIN reviews r ON r.id = t.review AND r.active = 1
  WHERE p.trial = ? ORDER BY r.id"""


def collect(store: Store, trial: int) -> Reads:
    """Returns a trial's decisions that were not undone: each reader's last on a case in an arm, with the total time."""
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
    """Returns the lesions in a mask: the connected components of at least LEAST pixels, each as bool `(H, W)`."""
    row = store.one("SELECT png FROM lesion_masks WHERE id = ?", [mask]) if mask else None
    if row is None:
        return []
    count, labels, stats, _ = cv2.connectedComponentsWithStats(decode_mask(row["png"]).astype(np.uint8), connectivity=8)
    return [labels == i for i in range(1, count) if stats[i, cv2.CC_STAT_AREA] >= LEAST]


def assigned_marks(store: Store, reads: Reads) -> list[list[list[Marked]]] | None:
    """Returns hits and false-positive marks, indexed [arm][reader][complete case], or None if the plan has no marks."""
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
        return hits([_mark(row, shape) for row in rows], truth[k], trial_plan.rule)

    return [[[read(reader_marks[k], int(k)) for k in complete] for reader_marks in arm] for arm in reads.marks]


def _mark(row: list[float], shape: tuple[int, int]) -> Mark:
    x0, y0, x1, y1, rating = row
    mask = np.zeros(shape, bool)
    mask[int(y0) : int(np.ceil(y1)) + 1, int(x0) : int(np.ceil(x1)) + 1] = True
    return Mark(rating, ((x0 + x1) / 2, (y0 + y1) / 2), mask if (x1 - x0) * (y1 - y0) > 1 else None)


def figures(store: Store, trial: int, method: str = "jackknife") -> dict[str, Any]:
    """Computes all results of a trial's report, as JSON-compatible values. Differences are unaided minus aided.

    If a class (normal or abnormal) has fewer than two complete cases, `enough` is False and most results are missing.
    method: Estimator of covariances, one of `mrmc.METHODS`.
    """
    reads = collect(store, trial)
    complete = reads.complete
    truth = reads.truth[complete]
    out: dict[str, Any] = {"flow": _flow(store, reads), "arms": list(reads.arms), "readers": list(reads.readers)}
    out["kappa"] = _kappas(reads)
    out["seconds"] = _seconds(reads)
    if min(truth.sum(), (~truth).sum()) < 2:
        return out | {"enough": False}
    ratings, decided = reads.ratings[..., complete], reads.decisions[..., complete] > 0
    area = mrmc.area(ratings, truth)
    correct = decided == truth
    measures: dict[str, Figure] = {
        "Area under the ROC curve": area,
        "Sensitivity": mrmc.sensitivity_or_specificity(correct, truth, True),
        "Specificity": mrmc.sensitivity_or_specificity(correct, truth, False),
    }
    marks = assigned_marks(store, reads)
    if marks is not None and all(case.lesions for case, sick in zip(marks[0][0], truth, strict=True) if sick):
        rows = [[jafroc(reader_marks, truth) for reader_marks in arm] for arm in marks]
        measures["Weighted JAFROC"] = Figure(*(np.array([[f[i] for f in row] for row in rows]) for i in range(3)))
        out["froc"] = [[np.stack(froc(reader_marks, truth)).tolist() for reader_marks in arm] for arm in marks]
        out["afroc"] = [[np.stack(afroc(reader_marks, truth)).tolist() for reader_marks in arm] for arm in marks]
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
        reader_changes = [changes(decided[0, j], decided[1, j], truth, machine) for j in range(len(reads.readers))]
        out["changes"] = reader_changes
    return out | {"enough": True, "method": method}


def _of_reader(ratings: np.ndarray, decided: np.ndarray, truth: np.ndarray, area: float, error: float) -> dict:
    fit = mrmc.binormal(ratings, truth)
    low, high = mrmc.interval(area, error)
    counts = confusion(truth, decided)
    return {
        "area": {"value": area, "low": low, "high": high},
        "binormal": fit and {"a": fit.a, "b": fit.b, "area": fit.area, "error": fit.error},
        "points": np.stack(mrmc.roc_points(ratings, truth), 1).tolist(),
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
    """Computes kappa between readers on complete cases, by arm, and within readers on the cases read twice."""
    complete = reads.complete
    pairs = {arm: between(reads.decisions[i][:, complete], list(reads.readers)) for i, arm in enumerate(reads.arms)}
    within = {name: kappa(*np.array(decisions).T) for name, decisions in sorted(reads.again.items())}
    return {"between": pairs, "within": within, "kinds": list(DECISIONS)}


def _seconds(reads: Reads) -> dict[str, Any]:
    by_reader = {
        name: times({arm: reads.seconds[i, j] for i, arm in enumerate(reads.arms)})
        for j, name in enumerate(reads.readers)
    }
    ratio = time_ratio(reads.seconds[0], reads.seconds[1]) if len(reads.arms) > 1 else None
    return {"by_reader": by_reader, "ratio": ratio}


def kappa(first: np.ndarray, second: np.ndarray, kinds: int = 3) -> dict:
    """Returns Cohen's kappa and its 95 % interval for two series of decisions `(n,)`, coded as 0 to kinds - 1."""
    table = np.zeros((kinds, kinds), int)
    np.add.at(table, (np.asarray(first, int), np.asarray(second, int)), 1)
    return cohen(table)


def between(decisions: np.ndarray, names: list[str]) -> list[dict]:
    """Returns Cohen's kappa for each pair of readers in an arm, with intervals, from decisions `(readers, cases)`."""
    pairs = itertools.combinations(range(len(names)), 2)
    return [{"readers": [names[a], names[b]], **kappa(decisions[a], decisions[b])} for a, b in pairs]


def changes(
    before: np.ndarray, after: np.ndarray, truth: np.ndarray, machine: np.ndarray | None = None
) -> dict[str, Any]:
    """Counts how often the AI result helped or harmed a reader.

    Args:
        before: Whether each unaided decision is abnormal, bool `(n,)`.
        after: Whether each aided decision is abnormal, bool `(n,)`.
        truth: Whether each case is abnormal, bool `(n,)`.
        machine: Whether each AI result is abnormal, bool `(n,)`, or None if some results are missing.

    Returns:
        Numbers of cases with a correct decision only when aided (`helped`), only when unaided (`harmed`), in both arms
        (`both_right`) or in none (`both_wrong`), and `p` of the exact McNemar test. With `machine`, also two fractions.
        `misled` is the fraction of correct unaided decisions with a wrong AI result that became wrong (automation
        bias). `corrected` is the fraction of wrong unaided decisions with a correct AI result that became correct.
    """
    correct_before, correct_after = before == truth, after == truth
    helped, harmed = int((~correct_before & correct_after).sum()), int((correct_before & ~correct_after).sum())
    moved = helped + harmed
    out: dict[str, Any] = {
        "both_right": int((correct_before & correct_after).sum()),
        "both_wrong": int((~correct_before & ~correct_after).sum()),
        "helped": helped,
        "harmed": harmed,
        "p": float(scipy.stats.binomtest(helped, moved, 0.5).pvalue) if moved else 1.0,
    }
    if machine is not None:
        bad, good = correct_before & (machine != truth), ~correct_before & (machine == truth)
        out["misled"] = wilson(int((bad & ~correct_after).sum()), int(bad.sum()))
        out["corrected"] = wilson(int((good & correct_after).sum()), int(good.sum()))
    return out


def times(seconds: Mapping[str, np.ndarray]) -> dict[str, dict | None]:
    """Returns the median, quartiles and number of reading times for each arm, or None for an arm without times."""
    out: dict[str, dict | None] = {}
    for arm, values in seconds.items():
        finite = np.asarray(values, float)[np.isfinite(values)]
        low, middle, high = np.percentile(finite, (25, 50, 75)) if len(finite) else (0.0, 0.0, 0.0)
        row = {"median": float(middle), "low": float(low), "high": float(high), "n": len(finite)}
        out[arm] = row if len(finite) else None
    return out


def time_ratio(first: np.ndarray, second: np.ndarray) -> dict | None:
    """Returns the reading time in the second arm divided by that in the first: {"ratio", "low", "high", "readers"}.

    The ratio is a geometric mean over readers with a 95 % t interval. Returns None if fewer than two readers have times
    in both arms.
    first: Seconds per case in the first arm, `(r, n)` for r readers and n cases; `second` is for the second arm.
    """
    with np.errstate(all="ignore"):
        logs = np.log(second) - np.log(first)
    means = np.array([row[np.isfinite(row)].mean() for row in logs if np.isfinite(row).any()])
    if len(means) < 2:
        return None
    half = scipy.stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    ratio, low, high = np.exp([means.mean(), means.mean() - half, means.mean() + half])
    return {"ratio": float(ratio), "low": float(low), "high": float(high), "readers": len(means)}


OVERLAP = 0.1  # minimum intersection over union (IoU) of a box and a lesion that it hits


@dataclass(frozen=True)
class Mark:
    """A lesion mark. `at` is its centre (x, y) in pixels, and `mask` its box, bool (H, W), or None for a point mark."""

    rating: float
    at: tuple[float, float]
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Marked:
    """Ratings on a case: the highest on each lesion (minus infinity if it has no hit), and those of false positives."""

    lesions: tuple[float, ...]
    false_positives: tuple[float, ...]

    @property
    def highest_false_positive(self) -> float:
        """Highest rating of a false-positive mark, or minus infinity without one."""
        return max(self.false_positives, default=-np.inf)


def hits(marks: Sequence[Mark], lesions: Sequence[np.ndarray], rule: str) -> Marked:
    """Assigns marks to the lesions (masks, bool `(H, W)`) that they hit, and keeps the highest rating for each lesion.

    With the rule `centre`, a mark hits the first lesion that contains its centre. With the rule `overlap`, this applies
    only to points; a box hits the lesion with the largest IoU if this IoU is at least OVERLAP. Raises ValueError for
    other rules.
    """
    if rule not in RULES:
        raise ValueError(f"the hit criterion must be one of {', '.join(RULES)}, not {rule!r}")
    best, false_positives = [-np.inf] * len(lesions), []
    for mark in marks:
        which = _hit(mark, lesions, rule)
        if which is None:
            false_positives.append(mark.rating)
        else:
            best[which] = max(best[which], mark.rating)
    return Marked(tuple(best), tuple(false_positives))


def _hit(mark: Mark, lesions: Sequence[np.ndarray], rule: str) -> int | None:
    x, y = (int(np.floor(v)) for v in mark.at)
    if rule == "centre" or mark.mask is None:
        inside = (i for i, m in enumerate(lesions) if 0 <= y < m.shape[0] and 0 <= x < m.shape[1] and m[y, x])
        return next(inside, None)
    overlaps = [float((mark.mask & m).sum() / max((mark.mask | m).sum(), 1)) for m in lesions]
    which = int(np.argmax(overlaps)) if overlaps else -1
    return which if which >= 0 and overlaps[which] >= OVERLAP else None


def jafroc(read: Sequence[Marked], truth: np.ndarray, weights: Mapping[int, Sequence[float]] | None = None) -> Figure:
    """Returns the weighted JAFROC figure of merit of a reader in an arm.

    This is the probability that a lesion of an abnormal case, drawn with its weight as probability, is rated higher
    than the highest-rated false-positive mark on a normal case; ties count half.

    Args:
        read: Marks on each of n cases.
        truth: Whether each case is abnormal, bool `(n,)`.
        weights: Lesion weights by the index of the case; by default all lesions of a case have equal weights.

    Raises:
        ValueError: If an abnormal case has no lesion, or the weights of its lesions do not sum to 1.
    """
    truth = np.asarray(truth, bool)
    normal = np.array([case.highest_false_positive for case, sick in zip(read, truth, strict=True) if not sick])
    columns = []
    for index in map(int, np.flatnonzero(truth)):
        rated = np.array(read[index].lesions)
        if not len(rated):
            raise ValueError("An abnormal case has no lesion.")
        w = np.array(weights[index]) if weights and index in weights else np.full(len(rated), 1 / len(rated))
        if len(w) != len(rated) or abs(w.sum() - 1) > 1e-9:
            raise ValueError("The weights of a case's lesions must sum to 1.")
        above = (rated > normal[:, None]) + 0.5 * (rated == normal[:, None])
        columns.append(above @ w)
    return of_kernel(np.stack(columns, 1))


def froc(read: Sequence[Marked], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the FROC curve as (false positives per image, fraction of lesions hit), in order of decreasing rating."""
    rated = np.array([v for case in read for v in case.lesions])
    false_positives = np.array([v for case in read for v in case.false_positives])
    cuts = _cuts(np.concatenate([rated, false_positives]))
    x = (false_positives[None, :] >= cuts[:, None]).sum(1) / len(truth)
    y = (rated[None, :] >= cuts[:, None]).mean(1) if len(rated) else np.zeros(len(cuts))
    return np.concatenate([[0.0], x]), np.concatenate([[0.0], y])


def afroc(read: Sequence[Marked], truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the AFROC curve of a reader as (x, y), from (0, 0) to (1, 1) in order of decreasing rating.

    x is the fraction of normal cases with a false positive, and y the fraction of lesions hit, averaged over abnormal
    cases. The last segment is straight, and the area below the curve is `jafroc` with equal weights.
    """
    truth = np.asarray(truth, bool)
    normal = np.array([c.highest_false_positive for c, is_sick in zip(read, truth, strict=True) if not is_sick])
    sick = [np.array(c.lesions) for c, is_sick in zip(read, truth, strict=True) if is_sick]
    rated = np.concatenate(sick) if sick else np.zeros(0)
    w = np.concatenate([np.full(len(c), 1 / (len(c) * len(sick))) for c in sick])
    cuts = _cuts(np.concatenate([rated, normal]))
    x = (normal[None, :] >= cuts[:, None]).mean(1)
    y = ((rated[None, :] >= cuts[:, None]) * w).sum(1)
    return np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], y, [1.0]])


def _cuts(ratings: np.ndarray) -> np.ndarray:
    return np.unique(ratings[np.isfinite(ratings)])[::-1]
