"""Results: rows of metrics of scored runs, and of a simple baseline that every detector should outperform."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from core.engine.calibration.percentiles import Calibration, PixelScale
from core.engine.rows import Some, rows_of
from core.studio.db.store import Store, now, parsed
from core.studio.ingest.patients import UNKNOWN, patients_of
from core.studio.ingest.studies import StudyArrays, load_arrays
from core.studio.runs import records as runs
from core.studio.runs.marks import Truth, learnt_from, truth_masks
from core.studio.runs.readings import StoredMaps, read_scores, size_of

BASELINE = "mean-colour"


def evaluate_run(
    store: Store, run_id: str, roi: bool = True, protocol: str = "held-out", masks: str = "", **options
) -> dict:
    """Computes the row of metrics of a scored run and stores it in the table `evaluations`.

    masks: Source of the lesion masks (see `truth_masks`).
    options: Arguments of `metrics.evaluate.evaluate`: pixel_rule, seed and bootstrap.

    Raises ValueError unless the study has labelled normal and labelled abnormal test images.
    """
    from core.engine.metrics.evaluate import evaluate

    started = time.monotonic()
    run = runs.get_run(store, run_id)
    truth = truth_masks(store, run["study"], masks)
    arrays = load_arrays(store, run["study"], size_of(store, run), masks=truth.masks)
    learnt = learnt_from(store, run_id)
    test, holdout = known_test(arrays, learnt), arrays.index("holdout", label="normal")
    labels = (arrays.label[test] == "abnormal").astype(int)
    scores, unseen = (read_scores(store, run_id, arrays.case_ids[rows], roi) for rows in (test, holdout))
    patients, held_patients = (patients_of(store, run["study"], arrays.case_ids[rows]) for rows in (test, holdout))
    row = evaluate(
        scores,
        labels,
        StoredMaps(store, run_id, arrays.case_ids[test]),
        Some(arrays.masks, test),
        arrays.has_mask[test],
        roi=Some(arrays.roi, test) if roi else None,
        holdout_roi=Some(arrays.roi, holdout) if roi else None,
        holdout_scores=unseen,
        holdout_maps=StoredMaps(store, run_id, arrays.case_ids[holdout]),
        protocol=protocol,
        patients=patients,
        holdout_patients=held_patients,
        outline=pixels_of(run, roi),
        **options,
    )
    row["conformal"] = conformal(unseen, scores[labels == 0], held_patients)
    parent = runs.get_run(store, run["parent"])
    seconds = sum(filter(None, (parent["seconds"], run["seconds"], run["summary"].get("score_seconds"))))
    origin = {"encoder": parent["method"], "detector": run["method"], "roi": bool(roi), "protocol": protocol}
    row["learnt_from"] = int(np.isin(arrays.case_ids[arrays.index("test")], list(learnt)).sum())
    row |= _compared_on(arrays, test, truth)
    row = {**row, **origin, "run": run_id, "seconds": round(seconds, 2), "seed": parent["config"].get("seed")}
    row["evaluate_seconds"] = round(time.monotonic() - started, 2)
    return keep_row(store, run["study"], run_id, row)


def pixels_of(run: dict, roi: bool = True) -> PixelScale | None:
    """Returns the scale of a run's heat maps and outlines, or None if the run has not scored its study."""
    calibration = run["summary"].get("calibration")
    return Calibration.from_dict(calibration["roi" if roi else "plain"]).pixels if calibration else None


def _compared_on(arrays: StudyArrays, test: np.ndarray, truth: Truth) -> dict[str, Any]:
    """Describes a row's test set by {"cases": number of cases, "masks": source of the masks, "set": digest of cases,
    labels and masks}. Only rows with the same `set` may be ranked."""
    cases = arrays.case_ids[test].tolist()
    facts = sorted(zip(cases, arrays.label[test].tolist(), (truth.masks.get(case, 0) for case in cases), strict=True))
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()
    return {"cases": len(cases), "masks": truth.kind, "set": digest[:16]}


def baseline_row(
    store: Store, study: str, size: int, roi: bool = True, protocol: str = "held-out", masks: str = "", **options
) -> dict:
    """Evaluates the mean-colour baseline, which is fitted to the normal training images, and stores its row.

    The baseline has no heat maps; `masks` only determines with which other rows its row can be compared.
    """
    from core.engine.mean_colour import MeanColour
    from core.engine.metrics.evaluate import evaluate

    started = time.monotonic()
    truth = truth_masks(store, study, masks)
    arrays = load_arrays(store, study, size, masks=truth.masks)
    train, test, normal = arrays.index("train"), known_test(arrays), arrays.index("holdout", label="normal")

    def rows(index: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return rows_of(arrays.images, index), rows_of(arrays.roi, index) if roi else None

    def scores(index: np.ndarray) -> np.ndarray:
        return normals.distances(*rows(index))

    normals = MeanColour.fit(*rows(train))

    options.pop("pixel_rule", None)
    labels = (arrays.label[test] == "abnormal").astype(int)
    patients = patients_of(store, study, arrays.case_ids[test])
    row = evaluate(scores(test), labels, holdout_scores=scores(normal), protocol=protocol, patients=patients, **options)
    origin = {"encoder": None, "detector": BASELINE, "roi": bool(roi), "protocol": protocol, "run": None, "seed": None}
    origin |= _compared_on(arrays, test, truth)
    return keep_row(store, study, None, {**row, **origin, "seconds": round(time.monotonic() - started, 2)})


def evaluate_both(store: Store, run_id: str, protocol: str = "held-out", masks: str = "") -> list[dict]:
    """Evaluates a run with and without the region of interest; returns both rows, each followed by the baseline's."""
    run = runs.get_run(store, run_id)

    def rows(roi: bool) -> list[dict]:
        row = evaluate_run(store, run_id, roi, protocol, masks)
        return [row, baseline_row(store, run["study"], size_of(store, run), roi, protocol, masks)]

    with ThreadPoolExecutor() as threads:
        return [row for pair in threads.map(rows, (True, False)) for row in pair]


def scored_fits(store: Store, study: str) -> list[str]:
    """Lists the ids of a study's finished detector runs that have scored cases, oldest first."""
    rows = store.query(
        "SELECT id FROM runs WHERE study = ? AND kind = 'fit' AND status = 'done' AND binned IS NULL "
        "AND EXISTS (SELECT 1 FROM readings WHERE run = runs.id) ORDER BY created, id",
        [study],
    )
    return [row["id"] for row in rows]


def flagged_counts(store: Store, run_id: str) -> dict:
    """Counts the test cases of a run: {"test": scored cases, "flagged", "flagged_roi": cases flagged by the region}."""
    return store.first(
        "SELECT count(*) AS test, coalesce(sum(flagged), 0) AS flagged, coalesce(sum(flagged_roi), 0) AS flagged_roi "
        "FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test'",
        [run_id],
    )


def has_known_test(store: Store, study: str) -> bool:
    """Returns whether a study has labelled normal and abnormal test cases, as an evaluation requires."""
    labels = "SELECT count(DISTINCT label) AS n FROM cases WHERE study = ? AND split = 'test' AND label != 'unknown'"
    return store.first(labels, [study])["n"] == 2


def conformal(held: np.ndarray, normals: np.ndarray, patients: np.ndarray | None = None, alpha: float = 0.05) -> dict:
    """Computes the conformal threshold from held-out scores, and counts the normal test images above it.

    At most the fraction `alpha` of new normal images exceeds the threshold, with the strongest guarantee that the
    number of scores in `held` allows. `normals` are the scores of the normal test images. If `patients` (the patient of
    each score in `held`) is given, the guarantee is based on the number of patients instead of the number of images.

    Returns {"alpha", "threshold" or None, "guarantee", "caveat" or None, "held", "needed", "flagged", "normals"}.
    """
    from core.engine.calibration.conformal import strongest_guarantee

    bound = strongest_guarantee(np.asarray(held, np.float64), patients, alpha)
    flagged = int((np.asarray(normals) > bound.threshold).sum())
    threshold = float(bound.threshold) if np.isfinite(bound.threshold) else None  # JSON has no infinity
    return {
        "alpha": alpha, "threshold": threshold, "guarantee": bound.guarantee, "held": bound.held,
        "caveat": UNKNOWN if patients is None else None,
        "needed": bound.needed, "flagged": flagged, "normals": len(normals),
    }  # fmt: skip


def known_test(arrays: StudyArrays, but: Collection[int] = ()) -> np.ndarray:
    """Returns the row indices of the test cases with a known label, except the cases whose ids are in `but`.

    Raises ValueError unless both normal and abnormal cases remain.
    """
    test = arrays.index("test")
    test = test[(arrays.label[test] != "unknown") & ~np.isin(arrays.case_ids[test], list(but))]
    if len(set(arrays.label[test])) < 2:
        raise ValueError("evaluation needs labelled normal and abnormal test images: import both")
    return test


def keep_row(store: Store, study: str, run_id: str | None, row: dict) -> dict:
    """Stores and returns a row of metrics; replaces a row of the same run, detector, region, protocol and masks."""
    same = "study = ? AND run IS ? AND json_extract(\"row\", '$.roi') = ? AND json_extract(\"row\", '$.protocol') = ?"
    same += " AND json_extract(\"row\", '$.detector') = ? AND json_extract(\"row\", '$.masks') IS ?"
    with store.write() as db:
        params = [study, run_id, int(row["roi"]), row["protocol"], row["detector"], row.get("masks")]
        db.execute(f"DELETE FROM evaluations WHERE {same}", params)
        db.table("evaluations").insert({"study": study, "run": run_id, "created": now(), "row": json.dumps(row)})
    return row


def evaluations(store: Store, study: str, run_id: str | None = None) -> list[dict]:
    """Lists the stored rows of metrics of a study, or of one of its runs, oldest first."""
    where, params = ("study = ? AND run = ?", [study, run_id]) if run_id else ("study = ?", [study])
    rows = store.query(f'SELECT "row" FROM evaluations WHERE {where} ORDER BY id', params)
    return [parsed(r, "row")["row"] for r in rows]
