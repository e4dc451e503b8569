"""The results page's figures: operating point, Wilson intervals, changed minds, Dice by lesion size, prediction
panel."""

from __future__ import annotations

import json
import random

import cv2
import numpy as np

from core.engine.calibration.outlines import outlined
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask, truth_masks
from core.studio.ingest.patients import patients_of
from core.studio.review.agreement import opinions
from core.studio.review.scales import outline_level, pixel_scale
from core.studio.review.scored import Scored, named, scored
from core.studio.runs.marks import learnt_from
from core.studio.runs.readings import unpack_map
from core.studio.runs.records import get_run
from core.studio.runs.results import conformal

POINTS = 600  # of a curve or a cloud: more of them look the same


def wilson(hits: int, n: int) -> dict:
    """{"value", "low", "high", "hits", "n"}: a share and its 95 % Wilson score interval (Wilson 1927)."""
    if n == 0:
        return {"value": None, "low": None, "high": None, "hits": 0, "n": 0}
    from scipy.stats import binomtest  # here: it takes a second to load, which the page's start need not wait for

    interval = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    return {"value": hits / n, "low": float(interval.low), "high": float(interval.high), "hits": hits, "n": n}


def confusion(truth: np.ndarray, found: np.ndarray) -> dict:
    """Two bool arrays (N,) -> counts, sensitivity, specificity, PPV and NPV with intervals."""
    tp, fp = int((truth & found).sum()), int((~truth & found).sum())
    fn, tn = int((truth & ~found).sum()), int((~truth & ~found).sum())
    return {
        "tp": tp, "fp": fp, "fn": fn, "tn": tn,
        "sensitivity": wilson(tp, tp + fn), "specificity": wilson(tn, tn + fp),
        "ppv": wilson(tp, tp + fp), "npv": wilson(tn, tn + fn),
    }  # fmt: skip


def truth_of(store: Store, study: str, cases: Scored, against: str) -> tuple[np.ndarray, np.ndarray]:
    """(known, sick), bool (N,) each. `against` 'labels' (of the import) or 'readers' (their majority; adjudication
    settles; unsure is none)."""
    if against == "labels":
        return cases.label != "unknown", cases.sick
    settled = {
        r["case_id"]: r["decision"]
        for r in store.query(
            "SELECT k.case_id, k.decision FROM current_reviews k JOIN cases c ON c.id = k.case_id "
            "WHERE c.study = ? AND k.stage = 'adjudication'",
            [study],
        )
    }
    said: dict[str, list[int]] = {"abnormal": [], "normal": []}
    for case, words in opinions(store, study, "last").items():
        votes = list(words.values())
        ill, well = votes.count("abnormal"), votes.count("normal")
        word = settled.get(case) or ("abnormal" if ill > well else "normal" if well > ill else None)
        if word in said:
            said[word].append(case)
    sick = np.isin(cases.ids, said["abnormal"])
    return sick | np.isin(cases.ids, said["normal"]), sick


def operating_point(
    store: Store, study: str, run: str, against: str = "labels", roi: bool = True, cases: Scored | None = None
) -> dict:
    """{"roc": [[fpr, tpr]...], "auroc", "point": [fpr, tpr], confusion...}; roc is None where only one kind is
    known, and thinned to some POINTS. cases: the run's `scored`, where they are at hand."""
    cases = (scored(store, study, run, roi) if cases is None else cases).test
    known, sick = truth_of(store, study, cases, against)
    cases, sick = cases.where(known), sick[known]
    out = {"against": against, "run": run, "roc": None, "auroc": None, "point": None, **confusion(sick, cases.flagged)}
    if sick.any() and not sick.all():
        from sklearn.metrics import roc_auc_score, roc_curve

        fpr, tpr, _ = roc_curve(sick, cases.scores)
        kept = np.unique(np.linspace(0, len(fpr) - 1, min(len(fpr), POINTS)).astype(int))
        out["roc"] = np.stack([fpr, tpr], 1)[kept].tolist()
        out["auroc"] = float(roc_auc_score(sick, cases.scores))
        out["point"] = [1 - out["specificity"]["value"], out["sensitivity"]["value"]]
    return out


def promise(store: Store, study: str, cases: Scored) -> dict | None:
    """The conformal threshold of a run's `scored` cases (at most 5 % of normal images flagged) and what it flags of the
    test's normals: `results.conformal`, with the `share` and its 95 % interval. None where no held-out normal has been
    scored.
    """
    cases = cases.where(cases.label == "normal")
    held = cases.where(cases.split == "holdout")
    if not len(held):
        return None
    row = conformal(held.scores, cases.test.scores, patients_of(store, study, held.ids))
    return {**row, "share": wilson(row["flagged"], row["normals"])}


def changed_minds(store: Store, study: str) -> dict:
    """How second decisions differ from first ones, per reader, and whether the change was right where the label is
    known."""
    rows = store.query(
        "SELECT a.reader, a.decision AS first, b.decision AS second, c.label, c.id, c.name FROM current_reviews a "
        "JOIN current_reviews b ON b.case_id = a.case_id AND b.reader = a.reader AND b.stage = 'second' "
        "JOIN cases c ON c.id = a.case_id WHERE a.stage = 'first' AND c.study = ? ORDER BY a.reader, c.id",
        [study],
    )
    readers: dict[str, dict] = {}
    for r in rows:
        held = readers.setdefault(
            r["reader"],
            {"both": 0, "to_abnormal": 0, "to_normal": 0, "to_unsure": 0, "for_better": 0, "for_worse": 0, "cases": []},
        )
        held["both"] += 1
        if r["first"] == r["second"]:
            continue
        held[f"to_{r['second']}"] += 1
        held["cases"].append({k: r[k] for k in ("id", "name", "first", "second", "label")})
        if r["label"] in ("normal", "abnormal"):
            held["for_better"] += r["second"] == r["label"]
            held["for_worse"] += r["first"] == r["label"]
    return readers


def dice_by_size(store: Store, study: str, run: str, groups: int = 3) -> dict:
    """Dice of the run's outlines for each case with a lesion mask, and its mean in groups of lesion size.

    The heat map is brought to the mask's own resolution, as the viewer does. Of more than POINTS cases, so many are
    drawn by chance, always the same ones; "of": how many there are.
    """
    learnt = learnt_from(store, run)
    truth = {case: mask for case, mask in truth_masks(store, study).items() if case not in learnt}
    scale = pixel_scale(store, get_run(store, run))
    (read,) = store.columns("SELECT case_id FROM readings WHERE run = ? AND score IS NOT NULL", [run])
    there = sorted(truth.keys() & set(read))
    drawn = random.Random(0).sample(there, POINTS) if len(there) > POINTS else there
    rows = store.query(  # CROSS: joined in this order, from the few that are drawn
        "SELECT r.case_id, r.map, r.map_h, r.map_w, r.map_lo, r.map_hi, json_extract(r.extra, '$.outline') AS outline, "
        "m.png, c.name FROM json_each(?) d "
        "CROSS JOIN lesion_masks m ON m.id = d.value CROSS JOIN cases c ON c.id = m.case_id "
        "CROSS JOIN readings r ON r.run = ? AND r.case_id = m.case_id WHERE r.map IS NOT NULL ORDER BY r.case_id",
        [json.dumps([truth[case] for case in drawn]), run],
    )
    points = []
    for row in rows:
        mask = decode_mask(row["png"]).astype(bool)
        heat = cv2.resize(unpack_map(row), mask.shape[::-1], interpolation=cv2.INTER_LINEAR)
        found = outlined(heat[None], outline_level(row, scale), scale)[0]
        total = int(mask.sum() + found.sum())
        dice = 2 * int((mask & found).sum()) / total if total else 1.0
        points.append({"case": row["case_id"], "name": row["name"], "size": float(mask.mean()), "dice": dice})
    points.sort(key=lambda p: p["size"])
    parts = [list(p) for p in np.array_split(np.array(points, object), min(groups, len(points)))] if points else []
    summary = [
        {
            "from": p[0]["size"], "to": p[-1]["size"], "n": len(p),
            "dice": float(np.mean([x["dice"] for x in p])), "sd": float(np.std([x["dice"] for x in p])),
        }
        for p in parts
    ]  # fmt: skip
    return {"points": points, "groups": summary, "threshold": scale.threshold, "of": len(there)}


def prediction_panel(store: Store, run: str, cases: Scored, count: int = 12, roi: bool = True) -> list[dict]:
    """Test cases for the paper's prediction panel: evenly through the scores, each right or wrong at the threshold."""
    cases = cases.test
    cases = cases.where(cases.label != "unknown")
    if len(cases) > count:
        cases = cases.where(np.array([round(i * (len(cases) - 1) / (count - 1)) for i in range(count)]))
    rows = named(store, run, cases, roi)
    return [{**r, "right": bool(r["flagged"]) == (r["label"] == "abnormal")} for r in rows]
