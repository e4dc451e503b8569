"""Results of runs compared with labels or readers: metrics, ROC curves, Dice, and a verdict on each detector."""

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

# A run's scores as arrays. They are read from indexes of the database alone, because scanning the rows of 100,000 cases
# with their heat maps would take seconds.


@dataclass(frozen=True)
class Scored:
    """Scores of a run on N cases, sorted from the highest to the lowest score.

    ids: Ids of the cases, int64 (N,).
    scores: Anomaly scores, float64 (N,).
    flagged: Whether the run flags each case, bool (N,).
    label: Labels from the import, "normal", "abnormal" or "unknown", (N,).
    split: Splits of the cases, "train", "holdout" or "test", (N,).
    """

    ids: np.ndarray
    scores: np.ndarray
    flagged: np.ndarray
    label: np.ndarray
    split: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> Scored:
        """Returns the cases selected by `keep`, a boolean mask (N,) or an array of positions."""
        return Scored(*(getattr(self, name)[keep] for name in ("ids", "scores", "flagged", "label", "split")))

    @property
    def test(self) -> Scored:
        """Cases of the test split."""
        return self.where(self.split == "test")

    @property
    def sick(self) -> np.ndarray:
        """Whether each case is labelled abnormal in the import, bool (N,)."""
        return np.asarray(self.label == "abnormal")


def scored(store: Store, study: str, run: str, roi: bool = True) -> Scored:
    """Reads a run's scores of the study's held-out and test cases, excluding cases that influenced its training.

    roi: Whether to read the scores inside the region of interest instead of the scores of whole images.
    """
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
    """Returns {"id", "name", "label", "score", "percentile", "flagged"} of each case, in the order of `cases`."""
    end = "_roi" if roi else ""
    rows = store.query(
        f"SELECT c.id, c.name, c.added, c.label, r.score{end} AS score, r.percentile{end} AS percentile, "
        f"r.flagged{end} AS flagged FROM json_each(?) d CROSS JOIN cases c ON c.id = d.value "
        "JOIN readings r ON r.case_id = c.id WHERE r.run = ? ORDER BY d.key",
        [json.dumps(cases.ids.tolist()), run],
    )
    return [named(row) for row in rows]


POINTS = 600  # maximum number of points of a curve or scatter plot
GROUPS = 3  # number of groups of cases by lesion size


def wilson(hits: int, n: int) -> dict:
    """Computes the fraction `hits / n` with its 95 % Wilson score interval (Wilson, 1927).

    Returns {"value": the fraction, "low" and "high": the interval, "hits", "n"}. The first three are None if `n` is 0.
    """
    if n == 0:
        return {"value": None, "low": None, "high": None, "hits": 0, "n": 0}
    from scipy.stats import binomtest  # imported late, because the import takes a second

    interval = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    return {"value": hits / n, "low": float(interval.low), "high": float(interval.high), "hits": hits, "n": n}


def in_words(share: dict, nouns: str) -> str:
    """Formats a result of `wilson` as text, such as '3 of 80 images (3.8 %, 95 % interval 1.3 to 10.5 %)'."""
    if share["value"] is None:
        return f"0 of 0 {nouns}"
    value, low, high = (f"{100 * share[name]:.1f}" for name in ("value", "low", "high"))
    return f"{share['hits']} of {share['n']} {nouns} ({value} %, 95 % interval {low} to {high} %)"


def confusion(truth: np.ndarray, flagged: np.ndarray) -> dict:
    """Computes the confusion matrix of flags against the truth, both bool (N,) and True for abnormal.

    Returns {"tp", "fp", "fn", "tn", "sensitivity", "specificity", "ppv", "npv"}. The last four are results of `wilson`.
    """
    tp, fp = int((truth & flagged).sum()), int((~truth & flagged).sum())
    fn, tn = int((truth & ~flagged).sum()), int((~truth & ~flagged).sum())
    return {
        "tp": tp, "fp": fp, "fn": fn, "tn": tn,
        "sensitivity": wilson(tp, tp + fn), "specificity": wilson(tn, tn + fp),
        "ppv": wilson(tp, tp + fp), "npv": wilson(tn, tn + fn),
    }  # fmt: skip


def truth_of(store: Store, study: str, cases: Scored, against: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns for which cases the truth is known, and which cases are abnormal, both bool (N,).

    against: "labels" for the labels of the import, or "readers" for the readers' decisions in `consensus_labels`.
    """
    if against == "labels":
        return cases.label != "unknown", cases.sick
    decisions = consensus_labels(store, study)
    cases_by_word = [[case for case, word in decisions.items() if word == kind] for kind in ("abnormal", "normal")]
    sick = np.isin(cases.ids, cases_by_word[0])
    return sick | np.isin(cases.ids, cases_by_word[1]), sick


def consensus_labels(store: Store, study: str) -> dict[int, str]:
    """Returns {case id: "normal", "abnormal" or "unsure"} from the adjudicator's decision, else the readers' majority.

    The majority ignores unsure readers. Cases with neither an adjudication nor a majority are omitted.
    """
    query = "SELECT k.case_id, k.decision FROM current_reviews k JOIN cases c ON c.id = k.case_id "
    rows = store.query(query + "WHERE c.study = ? AND k.stage = 'adjudication'", [study])
    last = {row["case_id"]: row["decision"] for row in rows}
    decisions: dict[int, str] = {}
    for case, voices in opinions(store, study).items():
        votes = list(voices.values())
        abnormal, normal = votes.count("abnormal"), votes.count("normal")
        decision = last.get(case) or ("abnormal" if abnormal > normal else "normal" if normal > abnormal else None)
        if decision is not None:
            decisions[case] = decision
    return decisions


def operating_point(
    store: Store, study: str, run: str, against: str = "labels", roi: bool = True, cases: Scored | None = None
) -> dict:
    """Compares a run's scores and flags with the truth of the test cases.

    against: "labels" or "readers", as in `truth_of`.
    cases: Result of `scored` for the run, by default read from the database.

    Returns {"against", "run", "roc": at most POINTS pairs [false positive rate, true positive rate], "cuts": threshold
    of each pair, "auroc", "point": the pair at which the run flags cases} and the keys of `confusion`. "roc", "auroc"
    and "point" are None unless the test cases include both known normal and known abnormal ones.
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
    """Computes the fraction of normal test images on which a run outlines a lesion, as `wilson` returns it.

    The page outlines a lesion if the image is flagged and its heat map exceeds the pixel threshold.
    """
    normal = cases.test.where(cases.test.label == "normal")
    flagged = json.dumps(normal.ids[normal.flagged].tolist())
    scale = pixel_scale(get_run(store, run))
    rows = store.query(
        "SELECT map_hi, json_extract(extra, '$.outline') AS outline FROM readings "
        "WHERE run = ? AND map IS NOT NULL AND case_id IN (SELECT value FROM json_each(?))",
        [run, flagged],
    )
    # The outline level of an image that nowhere exceeds the threshold is the threshold (calibration/outlines.py).
    rises = [row["map_hi"] > scale.threshold and row["outline"] != scale.threshold for row in rows]
    return wilson(sum(rises), len(normal))


def promise(store: Store, study: str, cases: Scored) -> dict | None:
    """Computes, from the scores of held-out normals, the conformal threshold that flags at most 5 % of normal images.

    Returns the result of `conformal` with two more keys: "share", the `wilson` fraction of normal test images that the
    threshold flags, and "paused": False. Returns None if no held-out normal image has a score.
    """
    cases = cases.where(cases.label == "normal")
    holdout = cases.where(cases.split == "holdout")
    if not len(holdout):
        return None
    row = conformal(holdout.scores, cases.test.scores, patients_of(store, study, holdout.ids))
    return {**row, "share": wilson(row["flagged"], row["normals"]), "paused": False}


def changed_minds(store: Store, study: str) -> dict:
    """Counts, for each reader of a study, how decisions changed after the AI result was shown.

    Returns {reader: {"both": number of cases with two decisions, "to_abnormal", "to_normal", "to_unsure": numbers of
    changes, "for_better": changes to the case's label, "for_worse": changes away from it, "cases": the changed cases}}.
    """
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
    """Computes the Dice coefficient of a run's outlines on cases with a lesion mask, and its mean by lesion size.

    Heat maps are resized to the masks. If there are more than POINTS cases, a fixed random sample of POINTS is used.

    masks: Kind of the lesion masks, as in `truth_masks`.

    Returns {"points": [{"case", "name", "size": lesion area as a fraction of the image, "dice"}], "groups": mean and
    standard deviation of Dice in GROUPS groups of similar lesion size, "threshold": pixel threshold of the run, "of":
    number of cases before sampling, "against": description of the reference masks}.
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
    """Returns `rows_of_cases` for up to `count` labelled test cases, evenly spaced in the order of scores.

    Each row also has "right": whether the run's flag agrees with the label.
    """
    cases = cases.test
    cases = cases.where(cases.label != "unknown")
    if len(cases) > count:
        cases = cases.where(np.array([round(i * (len(cases) - 1) / (count - 1)) for i in range(count)]))
    rows = rows_of_cases(store, run, cases, roi)
    return [{**r, "right": bool(r["flagged"]) == (r["label"] == "abnormal")} for r in rows]


PROMISED = 0.05  # fraction of normal images that the threshold may flag
FOUND = 0.75  # sensitivity below which a detector must be used with care
FEW = 20  # normal or abnormal cases below which intervals are too wide for a verdict

_NO_LABELS = "The study lacks labelled normal or abnormal test cases, so this detector cannot be judged."
_CHANCE = "The detector is no better than chance on these cases"
_UNTOLD = "Too few cases to tell the detector from chance"
_RETRAIN = "Do not read with this detector: train longer, or choose another one."
_SHIFTED = (
    "The test’s normal images differ from the held-out ones. Hold out normal images of the same source and fit again, "
    "or read with a higher threshold."
)
_MISSES = "The detector misses many lesions: annotate lesions in Review, then press Learn from marks."
_SMALL = "There are few cases, so the intervals are wide. Add labelled test cases before you rely on the detector."


def between(scores: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Returns thresholds, float64 (K,), each halfway between a cut and the next lower score.

    scores: Scores of the cases, (N,).
    cuts: Lowest flagged score of each of K operating points, or infinity if no case is flagged.
    """
    levels = np.unique(scores)
    index = np.searchsorted(levels, np.minimum(cuts, levels[-1]))
    below = np.where(index > 0, (levels[index - 1] + levels[index]) / 2, levels[0] - 1e-6 * (1 + abs(levels[0])))
    return np.where(np.isinf(cuts), levels[-1], below)


def learnt_threshold(cases: Scored, known: np.ndarray, sick: np.ndarray) -> float:
    """Returns the threshold whose flags agree best with the readers' decisions, by the Youden index.

    known, sick: Which cases have a known truth and which are abnormal, as `truth_of` returns them.

    Raises ValueError unless both normal and abnormal cases are known.
    """
    from sklearn.metrics import roc_curve

    cases, sick = cases.where(known), sick[known]
    if not sick.any() or sick.all():
        raise ValueError("Readers must call some cases normal and some abnormal before a threshold can be fitted.")
    fpr, tpr, cuts = roc_curve(sick, cases.scores)
    return float(between(cases.scores, cuts)[np.argmax(tpr - fpr)])


def verdict(run: dict, point: dict, chosen: OperatingPoint = USUAL) -> dict:
    """Judges a run by its `operating_point` against the labels.

    run: Row of the run, from `cases.scored_runs`.
    point: Result of `operating_point`.
    chosen: Operating point in effect. If a person moved or fitted the threshold, the false alarm rate is not judged.

    Returns {"run": id of the run, "title", "level": "good", "warn", "bad" or "none", "words", "advice", "found":
    sensitivity, "alarms": fraction of normal images that are flagged (both results of `wilson`), "auroc"}. The level is
    "none" without an AUROC, "bad" if the 95 % interval of the AUROC reaches 0.5 or the interval of "alarms" lies above
    PROMISED, and "warn" if the sensitivity is below FOUND or there are too few cases to judge.
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
    """Returns the variance of an AUROC on `sick` abnormal and `well` normal cases (Hanley and McNeil, 1982)."""
    q1, q2 = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
    spread = auroc * (1 - auroc) + (sick - 1) * (q1 - auroc**2) + (well - 1) * (q2 - auroc**2)
    return max(spread, 0.0) / (sick * well)


MEASURES = ("auroc", "pixel_auroc", "dice", "pro", "pro_all")


def compared(store: Store, study: str, runs: list[dict], roi: bool = True, masks: str = "reference") -> list[dict]:
    """Lists the stored evaluations of a study's runs, and of the mean-colour baseline as the last row.

    runs: Result of `cases.scored_runs`.
    masks: Kind of the lesion masks, "reference" or "readers".

    Returns [{"run": id, or None for the baseline, "title", "name", "encoder", "cases": number of cases, "localised":
    number of cases with a mask, "set": identifier of the evaluated cases and masks, "best": measures in which no row is
    better}]. Each row also has every measure in MEASURES and its 95 % interval, under the measure's name with "_ci".
    Both are None without an evaluation. "pro" is the per-region overlap on abnormal images, as in the paper; "pro_all"
    covers all images, as in MVTec. "best" is empty if rows were evaluated on different sets.
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
