"""Promises of a threshold, planted lesions and drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from scipy import stats

from core.engine.calibration import drift
from core.engine.calibration.conformal import by_images
from core.engine.calibration.planted import sensitivity
from core.studio.db import opening
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.patients import patients_of
from core.studio.runs import records as runs
from core.studio.runs.marks import truth_masks
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import load_detector, look
from tests.benches import bench

SPLITS = 200
SEEDS = (0, 1, 2)  # of drift, each with SPLITS orders
PLANTINGS = 3  # draws of images and lesions
CONFIDENCE = 0.95
SHIFTED = 60  # images after a simulated change, of at most MANY that are scored
MANY = 120
BINS = (0, 0.1, 0.2, 0.35, 1.0)  # of real lesions' sizes


@bench("promise")
def promise(quick: bool = False, data: str | None = None, device: str = "auto", only: tuple[str, ...] = ()) -> dict:
    """What a threshold's promise is worth: coverage over splits, planted beside real lesions, alarms of drift.

    --data FOLDER holds homes, each with a study that a first look has scored; nothing in them is changed. A set's
    normals are its held-out and its test ones together; 200 times half of them, drawn by chance, set the threshold for
    the others. One image of each patient counts, where patients are known.

    "promise", "planted", "believed", "drift": rows by set. only: of the parts promise, planted, drift, and
    still, which is drift without a change, from the scores alone.
    """
    if data is None:
        raise ValueError("say where the homes are: --data FOLDER")
    wanted = only or ("promise", "planted", "drift")
    out: dict[str, Any] = {name: [] for name in (*wanted, *(["believed"] if "planted" in wanted else []))}
    sets = {}
    for home in sorted(p for p in Path(data).iterdir() if (p / "studio.sqlite").exists()):
        sets[home.name] = _Set(home, device, pixels=bool({"planted", "drift"} & set(wanted)))
    for name, images_set in sets.items():
        if "promise" in wanted:
            out["promise"] += [
                {"set": name, **row}
                for row in promised(
                    images_set.normal, images_set.abnormal, 20 if quick else SPLITS, images_set.normal_whose
                )
            ]
        if "planted" in wanted:
            rows = _planted(images_set, 1 if quick else PLANTINGS)
            out["planted"] += [{"set": name, **row} for row in rows]
            out["believed"] += [{"set": name, **row} for row in _believed(images_set, rows)]
        if "still" in wanted:
            out["still"] += [{"set": name, "change": "none", **alarms(images_set.held, images_set.test, quick)}]
        if "drift" in wanted:
            other = next((o for n, o in sets.items() if n != name), None)
            out["drift"] += [{"set": name, **row} for row in _drifted(images_set, other, quick)]
    if "drift" in wanted:
        out["a_year"] = year(100 if quick else 1000)
    return out


class _Set:
    """Scores inside the region of interest of a home's first scored fit; images and detector where they are needed."""

    def __init__(self, home: Path, device: str, pixels: bool):
        store = opening.open(str(home))
        row = store.first("SELECT DISTINCT r.id, r.study FROM readings x JOIN runs r ON r.id = x.run")
        cases = store.query(
            "SELECT c.id, c.label, c.split, x.score_roi AS score FROM readings x JOIN cases c ON c.id = x.case_id "
            "WHERE x.run = ? ORDER BY c.id",
            [row["id"]],
        )
        self.normal = np.array([c["score"] for c in cases if c["label"] == "normal"])
        ids = np.array([c["id"] for c in cases])
        numbers = patients_of(store, row["study"], ids)
        whose = np.arange(len(ids)) if numbers is None else numbers
        self.whose = dict(zip(ids.tolist(), whose.tolist(), strict=True))
        self.normal_whose = np.array([self.whose[c["id"]] for c in cases if c["label"] == "normal"])
        held = [c for c in cases if c["split"] == "holdout"]
        test = [c for c in cases if c["split"] == "test" and c["label"] == "normal"]
        self.held, self.test = (
            (np.array([c["score"] for c in cases]), np.array([self.whose[c["id"]] for c in cases]))
            for cases in (held, test)
        )
        self.abnormal = np.array([c["score"] for c in cases if c["label"] == "abnormal"])
        run = runs.get_run(store, row["id"])
        self.threshold = run["summary"]["threshold_roi"]
        self.scores = {c["id"]: c["score"] for c in cases}
        self.sizes: dict[int, float] = {}
        if pixels:
            self.detector = load_detector(store, row["id"], device)
            self.arrays = load_arrays(store, row["study"], size_of(store, run))
            for case, mask in truth_masks(store, row["study"]).masks.items():
                png = store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask])["png"]
                self.sizes[case] = float(np.sqrt((decode_mask(png) > 0).mean()))
        store.close()

    def images(self, split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Normal images, MANY of them drawn by chance at most, with their regions of interest and whose they are."""
        index = self.arrays.index(split, label="normal")
        index = np.sort(np.random.default_rng(0).permutation(index)[:MANY])
        whose = np.array([self.whose[int(case)] for case in self.arrays.case_ids[index]])
        return np.array(self.arrays.images[index]), np.array(self.arrays.roi[index]), whose

    def real(self, low: float, high: float) -> list[int]:
        """Scored cases whose lesions have a size from low to below high."""
        return [case for case, size in self.sizes.items() if low <= size < high and case in self.scores]

    def score(self, images: np.ndarray, roi: np.ndarray) -> np.ndarray:
        return look(self.detector, images, roi)[1]["roi"]


def _drawn(rng: np.random.Generator, scores: np.ndarray, whose: np.ndarray) -> np.ndarray:
    """One score of each patient, drawn by chance, in a random order."""
    mixed = rng.permutation(len(scores))
    return scores[mixed[drift.first_of_each(whose[mixed])]]


def promised(
    normal: np.ndarray, abnormal: np.ndarray, splits: int = SPLITS, whose: np.ndarray | None = None
) -> list[dict]:
    """Measures a threshold's promise over random splits of normals: a row for each alpha.

    Share of normals flagged, how often it exceeds alpha, how often that is expected of exchangeable images, and what is
    found of the abnormal ones. whose: patients of the normals, in place of images.
    """
    rows = []
    whose = np.arange(len(normal)) if whose is None else whose
    units = len(np.unique(whose))
    n, m = units // 2, units - units // 2
    for alpha in (0.05, 0.1, 0.2):
        rng, shares, flagged, bound = np.random.default_rng(0), [], [], None
        for _ in range(splits):
            drawn = _drawn(rng, normal, whose)
            held, rest = drawn[:n], drawn[n:]
            bound = by_images(np.sort(held), alpha, CONFIDENCE)
            shares.append(float((rest > bound.threshold).mean()))
            flagged.append(float((abnormal > bound.threshold).mean()))
        ranks = np.arange(1, n + 1)
        enough = np.flatnonzero(stats.beta.cdf(alpha, n + 1 - ranks, ranks) >= CONFIDENCE)
        k = int(ranks[enough[0]]) if len(enough) else None
        expected = None if k is None else float(stats.betabinom.sf(np.floor(alpha * m), m, n + 1 - k, k))
        rows.append({
            "alpha": alpha, "held": n, "others": m, "possible": k is not None, "flagged": float(np.mean(shares)),
            "broken": float(np.mean(np.array(shares) > alpha)), "expected": expected, "found": float(np.mean(flagged)),
        })  # fmt: skip
    return rows


def _planted(images_set: _Set, draws: int) -> list[dict]:
    """Planted lesions by size and contrast, over some draws, and real ones by size: the root of their area."""
    images, roi, _ = images_set.images("holdout")
    planted: dict[tuple[float, float], list] = {}
    for seed in range(draws):
        for row in sensitivity(images_set.score, images, roi, images_set.threshold, seed=seed):
            planted.setdefault((row.size, row.contrast), []).append(row)
    rows: list[dict[str, Any]] = [
        {"kind": "planted", "size": size, "contrast": contrast, "images": sum(r.images for r in same),
         "flagged": sum(r.flagged for r in same), "root": float(np.sqrt(np.mean([r.area for r in same])))}
        for (size, contrast), same in planted.items()
    ]  # fmt: skip
    for low, high in zip(BINS, BINS[1:], strict=False):
        of = images_set.real(low, high)
        flagged = sum(images_set.scores[case] > images_set.threshold for case in of)
        rows.append({"kind": "real", "size": (low, high), "images": len(of), "flagged": int(flagged)})
    return rows


def _believed(images_set: _Set, rows: list[dict]) -> list[dict]:
    """Of real lesions by size, and all: the share found, and what planted ones of their size let expect."""
    out = []
    for low, high in [*zip(BINS, BINS[1:], strict=False), (BINS[0], BINS[-1])]:
        real = images_set.real(low, high)
        row: dict[str, Any] = {"size": (low, high), "images": len(real)}
        if not real:
            continue
        row["found"] = float(np.mean([images_set.scores[case] > images_set.threshold for case in real]))
        for contrast in sorted({r["contrast"] for r in rows if r["kind"] == "planted"}):
            curve = sorted((r["root"], r["flagged"] / r["images"]) for r in rows if r.get("contrast") == contrast)
            expected = np.interp([images_set.sizes[case] for case in real], *np.array(curve).T)
            row[f"expected at {contrast:g}"] = float(expected.mean())
        out.append(row)
    return out


def _drifted(images_set: _Set, other: _Set | None, quick: bool) -> list[dict]:
    """Images until the alarm, after a change that begins at the first new image; medians over random orders, by seed.

    Each order draws SHIFTED new images by chance, and one of each patient where patients are known, as of those that
    are held out.
    """
    images, roi, whose = images_set.images("test")
    changes = {"none": images, "gamma 0.85": _gamma(images, 0.85), "gamma 0.7": _gamma(images, 0.7),
               "blur": np.stack([cv2.GaussianBlur(i, (0, 0), 2.0) for i in images]),
               "another device": np.stack([_device(i) for i in images])}  # fmt: skip
    scored = {name: (images_set.score(given, roi), whose) for name, given in changes.items()}
    if other is not None:
        theirs, _, owners = other.images("test")
        size = images.shape[1]
        changes["another set"] = np.stack([cv2.resize(i, (size, size)) for i in theirs])
        inside = np.ones(changes["another set"].shape[:3], np.uint8)
        scored["another set"] = images_set.score(changes["another set"], inside), owners
    rows = []
    usual = drift.measures(images_set.images("holdout")[0])
    for name, new in scored.items():
        plain = [c.measure for c in drift.compare(usual, drift.measures(changes[name])) if c.matters]
        rows.append({"change": name, **alarms(images_set.held, new, quick), "plain": plain})
    return rows


def alarms(held: tuple[np.ndarray, np.ndarray], new: tuple[np.ndarray, np.ndarray], quick: bool) -> dict[str, Any]:
    """Measures alarms of drift over random orders, by seed.

    Share of orders that raise the alarm, and the median of images until it; None: fewer than half. held, new: scores
    (n,), and whose they are.
    """
    runs = []
    for seed in SEEDS[:1] if quick else SEEDS:
        rng = np.random.default_rng(seed)
        alarmed = []
        for _ in range(20 if quick else SPLITS):
            order, usual = _drawn(rng, *new)[:SHIFTED], _drawn(rng, *held)
            capital = drift.jumper(drift.online_p_values(usual, order, int(rng.integers(1 << 31))))
            alarmed.append(drift.first_alarm(capital))
        runs.append([np.inf if a is None else a + 1 for a in alarmed])
    middle = [float(np.median(run)) for run in runs]
    return {
        "held": len(usual), "images": len(order), "alarmed": [float(np.isfinite(run).mean()) for run in runs],
        "median": [m if np.isfinite(m) else None for m in middle],
    }  # fmt: skip


def _device(image: np.ndarray) -> np.ndarray:
    """As by another device: red up and blue down by 6 %, sharpened, a coarser JPEG."""
    sharp = cv2.addWeighted(image, 1.6, cv2.GaussianBlur(image, (0, 0), 1.0), -0.6, 0)
    warm = np.clip(sharp * np.array([1.06, 1.0, 0.94]), 0, 255).astype(np.uint8)
    return np.asarray(cv2.imdecode(cv2.imencode(".jpg", warm, [cv2.IMWRITE_JPEG_QUALITY, 50])[1], cv2.IMREAD_COLOR))


def _gamma(images: np.ndarray, power: float) -> np.ndarray:
    return np.rint(255 * (images / 255.0) ** power).astype(np.uint8)


def year(series: int, a_day: int = 20) -> dict[str, Any]:
    """Simulates series of a year's normal images without any change: the share that raise an alarm.

    Their p-values are uniform.
    """
    rng = np.random.default_rng(0)
    alarms = [drift.first_alarm(drift.jumper(rng.random(a_day * 365))) for _ in range(series)]
    return {"a_day": a_day, "series": series, "alarmed": float(np.mean([a is not None for a in alarms]))}
