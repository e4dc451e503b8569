"""Results of a run compared with labels or readers: metrics, curves, errors, and a verdict on each detector."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from core.engine.calibration.outlines import outlined
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.patients import patients_of
from core.studio.ingest.records import name_shown, named
from core.studio.review.agreement import Z, opinions
from core.studio.runs.marks import learnt_from, truth_masks
from core.studio.runs.operating import USUAL, OperatingPoint
from core.studio.runs.readings import outline_level, pixel_scale, unpack_map
from core.studio.runs.records import get_run
from core.studio.runs.results import BASELINE, conformal, evaluations

# A run's scores of a study's test cases as arrays. They are read from the database's indexes alone: scanning the rows
# of 100,000 cases, with their heat maps, would take seconds.


@dataclass(frozen=True)
class Scored:
    """A run's scores of N cases, highest first: ids int64, scores float64, flagged bool, label '<U8', split '<U7'."""

    ids: np.ndarray
    scores: np.ndarray
    flagged: np.ndarray
    label: np.ndarray
    split: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> Scored:
        """Returns the cases for which `keep` (N,) is True, or the cases at the positions `keep`."""
        return Scored(*(getattr(self, name)[keep] for name in ("ids", "scores", "flagged", "label", "split")))

    @property
    def test(self) -> Scored:
        return self.where(self.split == "test")

    @property
    def sick(self) -> np.ndarray:
        """bool (N,): abnormal by the study's labels."""
        return np.asarray(self.label == "abnormal")


def scored(store: Store, study: str, run: str, roi: bool = True) -> Scored:
    """Reads a run's scores of the study's held-out and test cases, except cases that the run has learnt from."""
    end = "_roi" if roi else ""
    ids, scores = map(
        np.array,
        store.columns(
            f"SELECT case_id, score{end} FROM readings WHERE run = ? AND score{end} IS NOT NULL "
            f"ORDER BY score{end} DESC, case_id",
            [run],
        ),
    )
    (flagged,) = store.columns(f"SELECT case_id FROM readings WHERE run = ? AND flagged{end} = 1", [run])
    case, label, split = map(
        np.array, store.columns("SELECT id, label, split FROM cases WHERE study = ? AND split != 'train'", [study])
    )
    keep = np.isin(ids, case) & ~np.isin(ids, list(learnt_from(store, run)))
    ids, scores = ids[keep].astype(np.int64), scores[keep].astype(np.float64)
    order = np.argsort(case)
    rows = order[np.searchsorted(case, ids, sorter=order)]
    return Scored(ids, scores, np.isin(ids, flagged), label[rows].astype("U8"), split[rows].astype("U7"))


def rows_of_cases(store: Store, run: str, cases: Scored, roi: bool = True) -> list[dict]:
    """Reads the rows of a few cases in their order: id, displayed name, label, score, percentile, flagged."""
    end = "_roi" if roi else ""
    rows = store.query(
        f"SELECT c.id, c.name, c.added, c.label, r.score{end} AS score, r.percentile{end} AS percentile, "
        f"r.flagged{end} AS flagged FROM json_each(?) d CROSS JOIN cases c ON c.id = d.value "
        "JOIN readings r ON r.case_id = c.id WHERE r.run = ? ORDER BY d.key",
        [json.dumps(cases.ids.tolist()), run],
    )
    return [named(row) for row in rows]


# The results page's figures: operating point, Wilson intervals, changed minds, Dice by lesion size, prediction panel.

POINTS = 600  # of a curve or a scatter plot: more of them look the same
GROUPS = 3  # of cases, by the size of their lesion


def wilson(hits: int, n: int) -> dict:
    """Computes a share and its 95 % Wilson score interval (Wilson 1927): {"value", "low", "high", "hits", "n"}."""
    if n == 0:
        return {"value": None, "low": None, "high": None, "hits": 0, "n": 0}
    from scipy.stats import binomtest  # here, because it takes a second to load, for which the page should not wait

    interval = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    return {"value": hits / n, "low": float(interval.low), "high": float(interval.high), "hits": hits, "n": n}


def in_words(share: dict, nouns: str) -> str:
    """Describes a result of `wilson` in words: '3 of 80 images (3.8 %, 95 % interval 1.3 to 10.5 %)'."""
    if share["value"] is None:
        return f"0 of 0 {nouns}"
    value, low, high = (f"{100 * share[name]:.1f}" for name in ("value", "low", "high"))
    return f"{share['hits']} of {share['n']} {nouns} ({value} %, 95 % interval {low} to {high} %)"


def confusion(truth: np.ndarray, flagged: np.ndarray) -> dict:
    """Returns counts, and sensitivity, specificity, PPV and NPV with 95 % intervals; truth, flagged: bool (N,)."""
    tp, fp = int((truth & flagged).sum()), int((~truth & flagged).sum())
    fn, tn = int((truth & ~flagged).sum()), int((~truth & ~flagged).sum())
    return {
        "tp": tp, "fp": fp, "fn": fn, "tn": tn,
        "sensitivity": wilson(tp, tp + fn), "specificity": wilson(tn, tn + fp),
        "ppv": wilson(tp, tp + fp), "npv": wilson(tn, tn + fn),
    }  # fmt: skip


def truth_of(store: Store, study: str, cases: Scored, against: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns which cases have a known truth, and which are abnormal: (known, sick), bool (N,) each. `against`:
    'labels' (from the import) or 'readers' (adjudication, else the majority of readers; unsure does not count)."""
    if against == "labels":
        return cases.label != "unknown", cases.sick
    words = settled(store, study)
    cases_by_word = [[case for case, word in words.items() if word == kind] for kind in ("abnormal", "normal")]
    sick = np.isin(cases.ids, cases_by_word[0])
    return sick | np.isin(cases.ids, cases_by_word[1]), sick


def settled(store: Store, study: str) -> dict[int, str]:
    """Returns the decision on each case: the adjudication, else the readers' majority; cases with a tie are omitted."""
    query = "SELECT k.case_id, k.decision FROM current_reviews k JOIN cases c ON c.id = k.case_id "
    rows = store.query(query + "WHERE c.study = ? AND k.stage = 'adjudication'", [study])
    last = {row["case_id"]: row["decision"] for row in rows}
    words: dict[int, str] = {}
    for case, voices in opinions(store, study).items():
        votes = list(voices.values())
        ill, well = votes.count("abnormal"), votes.count("normal")
        word = last.get(case) or ("abnormal" if ill > well else "normal" if well > ill else None)
        if word is not None:
            words[case] = word
    return words


def operating_point(
    store: Store, study: str, run: str, against: str = "labels", roi: bool = True, cases: Scored | None = None
) -> dict:
    """Measures a run's scores and flags on the test cases, against the labels or the readers.

    Returns {"roc": [[fpr, tpr]...], "cuts" (for each, the score above which it flags), "auroc", "point": [fpr, tpr],
    confusion...}; roc is None if only one class is known, and has at most POINTS points. cases: the run's `scored`, if
    already loaded.
    """
    cases = (scored(store, study, run, roi) if cases is None else cases).test
    is_known, sick = truth_of(store, study, cases, against)
    cases, sick = cases.where(is_known), sick[is_known]
    out: dict[str, Any] = {"against": against, "run": run, "roc": None, "cuts": [], "auroc": None, "point": None}
    out |= confusion(sick, cases.flagged)
    if sick.any() and not sick.all():
        from sklearn.metrics import roc_auc_score, roc_curve

        fpr, tpr, cuts = roc_curve(sick, cases.scores)
        thinned = np.unique(np.linspace(0, len(fpr) - 1, min(len(fpr), POINTS)).astype(int))
        out["roc"] = np.stack([fpr, tpr], 1)[thinned].tolist()
        out["cuts"] = between(cases.scores, cuts)[thinned].tolist()
        out["auroc"] = float(roc_auc_score(sick, cases.scores))
        out["point"] = [1 - out["specificity"]["value"], out["sensitivity"]["value"]]
    return out


def outlined_normals(store: Store, run: str, cases: Scored) -> dict:
    """Computes the share of normal test images that Review outlines automatically, with its 95 % interval.

    Such an image is flagged, and its heat map exceeds the pixel threshold. cases: the run's `scored`.
    """
    normal = cases.test.where(cases.test.label == "normal")
    flagged = json.dumps(normal.ids[normal.flagged].tolist())
    scale = pixel_scale(get_run(store, run))
    rows = store.query(
        "SELECT map_hi, json_extract(extra, '$.outline') AS outline FROM readings "
        "WHERE run = ? AND map IS NOT NULL AND case_id IN (SELECT value FROM json_each(?))",
        [run, flagged],
    )
    # an image that is nowhere above the threshold is outlined at the threshold itself (calibration/outlines.py)
    rises = [row["map_hi"] > scale.threshold and row["outline"] != scale.threshold for row in rows]
    return wilson(sum(rises), len(normal))


def promise(store: Store, study: str, cases: Scored) -> dict | None:
    """Computes the conformal threshold of a run's `scored` cases and how many normal test images it flags.

    The threshold flags at most 5 % of normal images. Returns the result of `conformal` with the `share` of flagged
    images, its 95 % interval, and `paused`, which believe.py sets; None if no held-out normal has been scored.
    """
    cases = cases.where(cases.label == "normal")
    holdout = cases.where(cases.split == "holdout")
    if not len(holdout):
        return None
    row = conformal(holdout.scores, cases.test.scores, patients_of(store, study, holdout.ids))
    return {**row, "share": wilson(row["flagged"], row["normals"]), "paused": False}


def changed_minds(store: Store, study: str) -> dict:
    """Counts how second decisions differ from first ones, per reader, and whether the change was right if the label is
    known."""
    rows = store.query(
        "SELECT a.reader, a.decision AS first, b.decision AS second, c.label, c.id, c.name FROM current_reviews a "
        "JOIN current_reviews b ON b.case_id = a.case_id AND b.reader = a.reader AND b.stage = 'second' "
        "JOIN cases c ON c.id = a.case_id WHERE a.stage = 'first' AND c.study = ? ORDER BY a.reader, c.id",
        [study],
    )
    readers: dict[str, dict] = {}
    for r in rows:
        counts = readers.setdefault(
            r["reader"],
            {"both": 0, "to_abnormal": 0, "to_normal": 0, "to_unsure": 0, "for_better": 0, "for_worse": 0, "cases": []},
        )
        counts["both"] += 1
        if r["first"] == r["second"]:
            continue
        counts[f"to_{r['second']}"] += 1
        counts["cases"].append({k: r[k] for k in ("id", "name", "first", "second", "label")})
        if r["label"] in ("normal", "abnormal"):
            counts["for_better"] += r["second"] == r["label"]
            counts["for_worse"] += r["first"] == r["label"]
    return readers


def dice_by_size(store: Store, study: str, run: str, masks: str = "") -> dict:
    """Computes Dice of the run's outlines for each case with a lesion mask, and its mean in GROUPS of lesion size.

    The heat map is resized to the mask's own resolution, as in the viewer. If there are more than POINTS cases, POINTS
    are drawn at random with a fixed seed; "of": the number of cases. masks: the kind, as in `truth_masks`; "against"
    describes the masks that were used.
    """
    learnt, annotated = learnt_from(store, run), truth_masks(store, study, masks)
    truth = {case: mask for case, mask in annotated.masks.items() if case not in learnt}
    scale = pixel_scale(get_run(store, run))
    (read,) = store.columns("SELECT case_id FROM readings WHERE run = ? AND score IS NOT NULL", [run])
    usable = sorted(truth.keys() & set(read))
    sampled = random.Random(0).sample(usable, POINTS) if len(usable) > POINTS else usable
    rows = store.query(  # CROSS fixes the order of joins: start from the few sampled cases
        "SELECT r.case_id, r.map, r.map_h, r.map_w, r.map_lo, r.map_hi, json_extract(r.extra, '$.outline') AS outline, "
        "m.png, c.id, c.name, c.added FROM json_each(?) d "
        "CROSS JOIN lesion_masks m ON m.id = d.value CROSS JOIN cases c ON c.id = m.case_id "
        "CROSS JOIN readings r ON r.run = ? AND r.case_id = m.case_id WHERE r.map IS NOT NULL ORDER BY r.case_id",
        [json.dumps([truth[case] for case in sampled]), run],
    )
    points = []
    for row in rows:
        mask = decode_mask(row["png"]).astype(bool)
        heat = cv2.resize(unpack_map(row), mask.shape[::-1], interpolation=cv2.INTER_LINEAR)
        outline = outlined(heat[None], outline_level(row, scale), scale)[0]
        total = int(mask.sum() + outline.sum())
        dice = 2 * int((mask & outline).sum()) / total if total else 1.0
        points.append({"case": row["case_id"], "name": name_shown(row), "size": float(mask.mean()), "dice": dice})
    points.sort(key=lambda p: p["size"])
    bins = [list(p) for p in np.array_split(np.array(points, object), min(GROUPS, len(points)))] if points else []
    summary = [
        {
            "from": p[0]["size"], "to": p[-1]["size"], "n": len(p),
            "dice": float(np.mean([x["dice"] for x in p])), "sd": float(np.std([x["dice"] for x in p])),
        }
        for p in bins
    ]  # fmt: skip
    against = annotated.words(usable)
    return {"points": points, "groups": summary, "threshold": scale.threshold, "of": len(usable), "against": against}


def prediction_panel(store: Store, run: str, cases: Scored, count: int = 12, roi: bool = True) -> list[dict]:
    """Returns `count` labelled test cases, evenly spaced by score; "right": whether the flag agrees with the label."""
    cases = cases.test
    cases = cases.where(cases.label != "unknown")
    if len(cases) > count:
        cases = cases.where(np.array([round(i * (len(cases) - 1) / (count - 1)) for i in range(count)]))
    rows = rows_of_cases(store, run, cases, roi)
    return [{**r, "right": bool(r["flagged"]) == (r["label"] == "abnormal")} for r in rows]


# One plain verdict on each detector: what it finds, its false alarms, whether its promise holds, what to do.

PROMISED = 0.05  # share of normal images that the threshold may flag
FOUND = 0.75  # share of abnormal cases: a detector that finds fewer must be used with care
FEW = 20  # cases of a kind: with fewer, an interval is too wide for a verdict

_NO_LABELS = "The study lacks labelled normal or abnormal test cases, so this detector cannot be judged."
_CHANCE = "It is no better than chance on these cases"
_UNTOLD = "Too few cases to tell it from chance"
_RETRAIN = "Do not read with it: train longer, or choose another detector."
_SHIFTED = (
    "The test’s normal images differ from the held-out ones. Hold out normal images of the same source and fit again, "
    "or read with a higher threshold."
)
_MISSES = "It misses many: mark lesions in Review, and it learns from them."
_SMALL = "Few cases: the intervals are wide. Add labelled test cases before you rely on it."


def between(scores: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Moves each cut (K,), the lowest score that is flagged, halfway to the next lower score; float64 (K,)."""
    levels = np.unique(scores)
    index = np.searchsorted(levels, np.minimum(cuts, levels[-1]))
    below = np.where(index > 0, (levels[index - 1] + levels[index]) / 2, levels[0] - 1e-6 * (1 + abs(levels[0])))
    return np.where(np.isinf(cuts), levels[-1], below)


def learnt_threshold(cases: Scored, known: np.ndarray, sick: np.ndarray) -> float:
    """Returns the threshold at which flags agree best with readers' decisions (known and sick as in `truth_of`).

    It has the largest Youden index and, among equals, the fewest false alarms. Raises ValueError unless some known
    cases are sick and some are not.
    """
    from sklearn.metrics import roc_curve

    cases, sick = cases.where(known), sick[known]
    if not sick.any() or sick.all():
        raise ValueError("Readers have to call some cases normal and some abnormal before a threshold is learnt.")
    fpr, tpr, cuts = roc_curve(sick, cases.scores)
    return float(between(cases.scores, cuts)[np.argmax(tpr - fpr)])


def verdict(run: dict, point: dict, chosen: OperatingPoint = USUAL) -> dict:
    """Judges a scored run by its `operating_point` against the labels.

    Returns {"run", "title", "level" (good, warn, bad, none), "words", "advice", "found", "alarms", "auroc"}. The run
    breaks its promise, to flag at most the share PROMISED of normal images, if the 95 % interval lies above that share.
    It is no better than chance if the AUROC's 95 % interval reaches 0.5; with fewer than FEW cases of a kind this is
    unknown, unless the AUROC is 0.5 or less. A run that finds less than the share FOUND of abnormal cases is not good.
    """
    sick, well = point["tp"] + point["fn"], point["fp"] + point["tn"]
    out = {"run": run["id"], "title": run["title"], "found": point["sensitivity"], "auroc": point["auroc"]}
    out["alarms"] = wilson(point["fp"], well)
    if point["auroc"] is None:
        return {**out, "level": "none", "words": _NO_LABELS, "advice": ""}
    share = out["alarms"]["value"] or 0.0
    figures = f"Finds {in_words(out['found'], 'abnormal cases')} and flags {in_words(out['alarms'], 'normal ones')}"
    if point["auroc"] - Z * auroc_variance(point["auroc"], sick, well) ** 0.5 <= 0.5:
        if min(sick, well) < FEW and point["auroc"] > 0.5:
            return {**out, "level": "warn", "words": f"{_UNTOLD}. {figures}.", "advice": _SMALL}
        return {**out, "level": "bad", "words": f"{_CHANCE}. {figures}.", "advice": _RETRAIN}
    misses = out["found"]["value"] < FOUND
    level, advice = ("warn", _MISSES) if misses else ("good", "")
    if chosen.source in ("dragged", "readers"):  # a moved threshold carries no promise
        return {**out, "level": level, "words": f"{figures}, at the operating point {chosen.words}.", "advice": advice}
    limit = f"{100 * PROMISED:.0f} %"
    if out["alarms"]["low"] > PROMISED:
        words = f"{figures}, where its threshold promises at most {limit}: the promise does not hold here."
        return {**out, "level": "bad", "words": words, "advice": _SHIFTED}
    if min(sick, well) < FEW:
        return {**out, "level": "warn", "words": f"{figures}.", "advice": _SMALL}
    within = "within" if share <= PROMISED else "not clearly above"
    return {**out, "level": level, "words": f"{figures}, {within} the promised {limit}.", "advice": advice}


def auroc_variance(auroc: float, sick: float, well: float) -> float:
    """Returns the variance of an AUROC over `sick` abnormal and `well` normal cases (Hanley and McNeil, 1982)."""
    q1, q2 = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    spread = auroc * (1 - auroc) + (sick - 1) * (q1 - auroc**2) + (well - 1) * (q2 - auroc**2)
    return max(spread, 0.0) / (sick * well)


# All scored runs of a study side by side, as they were evaluated, with the mean-colour baseline.

MEASURES = ("auroc", "pixel_auroc", "dice", "pro", "pro_all")


def compared(store: Store, study: str, runs: list[dict], roi: bool = True, masks: str = "reference") -> list[dict]:
    """Lists all scored runs of a study side by side, as they were evaluated, with the mean-colour baseline.

    Returns [{"run", "title", "name", "encoder", "cases", "localised", "set", and for each measure its value and
    interval (95 %), "best"}] in the order of `runs`, a result of `cases.scored_runs`; the baseline (run None) is last.
    masks: the kind of lesion masks. Measures: image AUROC, pixel AUROC, Dice at the threshold of held-out
    normals, PRO over abnormal images (the paper) and over all (MVTec); None if a run has not been evaluated, or has no
    lesion masks to compare with. best: names of the measures in which no other row is better; empty if rows differ in
    cases, labels or masks, by their `set`.
    """
    kind = (roi, "held-out", masks)
    by_run = {r["run"]: r for r in evaluations(store, study) if (r["roi"], r["protocol"], r.get("masks")) == kind}
    rows = [{k: r[k] for k in ("title", "name", "encoder")} | {"run": r["id"]} for r in runs]
    if None in by_run and by_run[None]["detector"] == BASELINE:
        rows.append({"run": None, "title": "Mean colour", "name": "no training", "encoder": None})
    for row in rows:
        evaluation = by_run.get(row["run"], {})
        row |= {"cases": evaluation.get("cases"), "set": evaluation.get("set")}
        row["localised"] = evaluation.get("n_localised") or None
        row |= {m: evaluation.get(m) for m in MEASURES} | {f"{m}_ci": evaluation.get(f"{m}_ci") for m in MEASURES}
    top = {m: max((r[m] for r in rows if r[m] is not None), default=None) for m in MEASURES}
    alike = len({row["set"] for row in rows if row["cases"]}) == 1
    for row in rows:
        row["best"] = [m for m in MEASURES if alike and row[m] is not None and row[m] == top[m]]
    return rows
