"""Promises of a threshold, planted lesions and drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from scipy import stats

from core.engine.benches.harness import bench
from core.engine.calibration import drift
from core.engine.calibration.conformal import by_images
from core.engine.calibration.planted import sensitivity
from core.studio.db import store as stores
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.masks import decode_mask, truth_masks
from core.studio.ingest.patients import patients_of
from core.studio.runs import records as runs
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import load_detector, look

SPLITS = 200
CONFIDENCE = 0.95
SHIFTED = 60  # images of a simulated change
BINS = (0, 0.1, 0.2, 0.35, 1.0)  # of real lesions' sizes


@bench("promise")
def promise(quick: bool = False, data: str | None = None, device: str = "auto", only: tuple[str, ...] = ()) -> dict:
    """What a threshold's promise is worth: coverage over splits, planted beside real lesions, alarms of drift.

    --data FOLDER holds homes, each with a study that a first look has scored; nothing in them is changed. A set's
    normals are its held-out and its test ones together; 200 times half of them, drawn by chance, set the threshold for
    the others.

    "promise", "planted", "drift": rows by set. only: of these parts.
    """
    if data is None:
        raise ValueError("say where the homes are: --data FOLDER")
    wanted = only or ("promise", "planted", "drift")
    out: dict[str, Any] = {name: [] for name in wanted}
    sets = {}
    for home in sorted(p for p in Path(data).iterdir() if (p / "studio.sqlite").exists()):
        sets[home.name] = _Set(home, device, pixels=bool({"planted", "drift"} & set(wanted)))
    for name, one in sets.items():
        if "promise" in wanted:
            out["promise"] += [
                {"set": name, **row} for row in promised(one.normal, one.abnormal, 20 if quick else SPLITS)
            ]
        if "planted" in wanted:
            out["planted"] += [{"set": name, **row} for row in _planted(one)]
        if "drift" in wanted:
            other = next((o for n, o in sets.items() if n != name), None)
            out["drift"] += [{"set": name, **row} for row in _drifted(one, other, quick)]
    if "drift" in wanted:
        out["a_year"] = year(100 if quick else 1000)
    return out


class _Set:
    """Scores inside the region of interest of a home's first scored fit; images and detector where they are needed."""

    def __init__(self, home: Path, device: str, pixels: bool):
        store = stores.open(str(home))
        row = store.first("SELECT DISTINCT r.id, r.study FROM readings x JOIN runs r ON r.id = x.run")
        cases = store.query(
            "SELECT c.id, c.label, c.split, x.score_roi AS score FROM readings x JOIN cases c ON c.id = x.case_id "
            "WHERE x.run = ? ORDER BY c.id",
            [row["id"]],
        )
        self.normal = np.array([c["score"] for c in cases if c["label"] == "normal"])
        self.held = np.array([c["score"] for c in cases if c["split"] == "holdout"])
        ids = np.array([c["id"] for c in cases])
        numbers = patients_of(store, row["study"], ids)
        whose = np.arange(len(ids)) if numbers is None else numbers
        self.whose = dict(zip(ids.tolist(), whose.tolist(), strict=True))
        self.held_whose = np.array([self.whose[c["id"]] for c in cases if c["split"] == "holdout"])
        self.abnormal = np.array([c["score"] for c in cases if c["label"] == "abnormal"])
        about = runs.get_run(store, row["id"])
        self.threshold = about["summary"]["threshold_roi"]
        self.scores = {c["id"]: c["score"] for c in cases}
        self.sizes: dict[int, float] = {}
        if pixels:
            self.detector = load_detector(store, row["id"], device)
            self.arrays = load_arrays(store, row["study"], size_of(store, about))
            for case, mask in truth_masks(store, row["study"]).items():
                png = store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask])["png"]
                self.sizes[case] = float(np.sqrt((decode_mask(png) > 0).mean()))
        store.close()

    def images(self, split: str, count: int, each: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Normal images and their regions of interest; each: one of a patient, drawn by chance."""
        index = self.arrays.index(split, label="normal")
        if each:
            index = np.random.default_rng(0).permutation(index)
            index = index[drift.first_of_each(np.array([self.whose[int(self.arrays.case_ids[i])] for i in index]))]
        index = np.sort(index[:count])
        return np.array(self.arrays.images[index]), np.array(self.arrays.roi[index])

    def score(self, images: np.ndarray, roi: np.ndarray) -> np.ndarray:
        return look(self.detector, images, roi)[1]["roi"]


def promised(normal: np.ndarray, abnormal: np.ndarray, splits: int = SPLITS) -> list[dict]:
    """By alpha: share of normals flagged over random splits, how often it exceeds alpha, how often that is expected of
    exchangeable images, and what is found of the abnormal ones.
    """
    rows = []
    for alpha in (0.05, 0.1, 0.2):
        rng, shares, found, kept = np.random.default_rng(0), [], [], None
        for _ in range(splits):
            order = rng.permutation(len(normal))
            held, rest = normal[order[: len(normal) // 2]], normal[order[len(normal) // 2 :]]
            kept = by_images(np.sort(held), alpha, CONFIDENCE)
            shares.append(float((rest > kept.threshold).mean()))
            found.append(float((abnormal > kept.threshold).mean()))
        n, m = len(normal) // 2, len(normal) - len(normal) // 2
        ranks = np.arange(1, n + 1)
        enough = np.flatnonzero(stats.beta.cdf(alpha, n + 1 - ranks, ranks) >= CONFIDENCE)
        k = int(ranks[enough[0]]) if len(enough) else None
        expected = None if k is None else float(stats.betabinom.sf(np.floor(alpha * m), m, n + 1 - k, k))
        rows.append({
            "alpha": alpha, "held": n, "others": m, "possible": k is not None, "flagged": float(np.mean(shares)),
            "broken": float(np.mean(np.array(shares) > alpha)), "expected": expected, "found": float(np.mean(found)),
        })  # fmt: skip
    return rows


def _planted(one: _Set) -> list[dict]:
    images, roi = one.images("holdout", 10_000)
    rows = [{"kind": "planted", **row._asdict()} for row in sensitivity(one.score, images, roi, one.threshold)]
    for low, high in zip(BINS, BINS[1:], strict=False):
        of = [case for case, size in one.sizes.items() if low <= size < high and case in one.scores]
        flagged = sum(one.scores[case] > one.threshold for case in of)
        rows.append({"kind": "real", "size": (low, high), "images": len(of), "flagged": flagged})
    return rows


def _drifted(one: _Set, other: _Set | None, quick: bool) -> list[dict]:
    """Images until the alarm, after a change that begins at the first new image; median over random orders.

    One image of each patient, where patients are known: drawn by chance of the new, in each order anew of the held-out.
    """
    images, roi = one.images("test", 12 if quick else SHIFTED, each=True)
    changes = {"none": images, "gamma 0.7": _gamma(images, 0.7), "gamma 0.85": _gamma(images, 0.85),
               "blur": np.stack([cv2.GaussianBlur(i, (0, 0), 2.0) for i in images])}  # fmt: skip
    scored = {name: one.score(given, roi) for name, given in changes.items()}
    if other is not None:
        size = images.shape[1]
        theirs = [cv2.resize(i, (size, size)) for i in other.images("test", len(images))[0]]
        changes["another set"] = np.stack(theirs)
        scored["another set"] = one.score(changes["another set"], np.ones(changes["another set"].shape[:3], np.uint8))
    rows, rng = [], np.random.default_rng(0)
    usual = drift.measures(one.images("holdout", 10_000)[0])
    for name, scores in scored.items():
        alarms = []
        for seed in range(20 if quick else SPLITS):
            order = rng.permutation(len(scores))
            mixed = rng.permutation(len(one.held))
            held = one.held[mixed][drift.first_of_each(one.held_whose[mixed])]
            capital = drift.jumper(drift.online_p_values(held, scores[order], seed))
            alarms.append(drift.first_alarm(capital))
        reached = [a + 1 for a in alarms if a is not None]
        plain = [c.measure for c in drift.compare(usual, drift.measures(changes[name])) if c.matters]
        rows.append({
            "change": name, "held": len(np.unique(one.held_whose)), "images": len(scores), "plain": plain,
            "alarmed": len(reached) / len(alarms), "median": float(np.median(reached)) if reached else None,
        })  # fmt: skip
    return rows


def _gamma(images: np.ndarray, power: float) -> np.ndarray:
    return np.rint(255 * (images / 255.0) ** power).astype(np.uint8)


def year(series: int, a_day: int = 20) -> dict[str, Any]:
    """Share of series of a year's normal images without any change that raise an alarm: their p-values are even."""
    rng = np.random.default_rng(0)
    alarms = [drift.first_alarm(drift.jumper(rng.random(a_day * 365))) for _ in range(series)]
    return {"a_day": a_day, "series": series, "alarmed": float(np.mean([a is not None for a in alarms]))}
