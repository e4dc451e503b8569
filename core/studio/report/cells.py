"""Computes the cells of the report: an arm's results with one seed, and the time and memory that its runs needed."""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import level_of, outlined, peaks
from core.engine.calibration.percentiles import PixelScale
from core.engine.metrics.localisation import overlaps_of
from core.engine.progress import Stop, Stopped
from core.engine.tensors import most_memory
from core.studio.db.store import Store, now
from core.studio.ingest.patients import patients_of
from core.studio.ingest.studies import StudyArrays, load_arrays
from core.studio.jobs.steps import never
from core.studio.report.arms import Arm, existing_runs, fitted, is_scored
from core.studio.runs import records as runs
from core.studio.runs.readings import read_maps, read_scores, size_of
from core.studio.runs.results import evaluate_run, evaluations, known_test, pixels_of

# Pixel rules of the protocols: 50 normal and 50 abnormal test images as in the paper, or held-out normals only.
RULES = {"paper": "best-dice", "held-out": "held-out"}
KEPT = "report_peak_memory"
Rows = dict[tuple[str, bool], dict[str, Any]]


@dataclass
class Cell:
    """Results of an arm with one seed, or the reason why there are none.

    fit: Id of the detector's run, or "" if it failed.
    encoder: Id of the encoder's run, or "" if the detector's run failed.
    seconds: Total duration of training, fitting and scoring.
    memory: Peak memory in bytes, or None if unknown.
    rows: Results of `results.evaluate_run` by (protocol, roi), where `roi` restricts pixels to the region of interest.
    error: Reason why there are no results, or "".
    """

    label: str
    seed: int
    fit: str = ""
    encoder: str = ""
    seconds: float | None = None
    memory: int | None = None
    collapsed: bool = False
    rows: Rows = field(default_factory=dict)
    error: str = ""


def run_cell(
    store: Store,
    study: str,
    arm: Arm,
    seed: int,
    *,
    size: int,
    device: str = "auto",
    bootstrap: int = 1000,
    should_stop: Stop = never,
) -> Cell:
    """Runs and evaluates an arm with one seed, reusing finished runs. If a run fails, the cell has an `error`.

    size: Image side length in pixels.
    bootstrap: Number of bootstrap samples for intervals. Raises Stopped if `should_stop` returns True.
    """
    started = now()
    reset_peak()
    try:
        fit = fitted(store, study, arm, seed, size=size, device=device, should_stop=should_stop)
    except Stopped:
        raise
    except (ValueError, ImportError, OSError) as error:  # such as weights that are not available
        return Cell(arm.label, seed, error=str(error))
    run = runs.get_run(store, fit)
    if run["created"] >= started and KEPT not in run["summary"]:
        runs.update_run(store, fit, summary={**run["summary"], KEPT: peak_bytes()})
    return _cell(store, arm, seed, fit, _rows(store, study, fit, bootstrap))


def kept_cell(store: Store, study: str, arm: Arm, seed: int, *, size: int) -> Cell | None:
    """Returns the cell of an arm with one seed if all its results exist, or None otherwise. Starts no run."""
    _, fit = existing_runs(store, study, arm, seed, size=size)
    rows = _kept_rows(store, study, fit["id"]) if fit and is_scored(fit) else {}
    return _cell(store, arm, seed, fit["id"], rows) if fit and len(rows) == 2 * len(RULES) else None


def _cell(store: Store, arm: Arm, seed: int, fit: str, rows: Rows) -> Cell:
    run = runs.get_run(store, fit)
    encoder = runs.get_run(store, run["parent"])
    spent = (encoder["seconds"], run["seconds"], run["summary"].get("score_seconds"))
    return Cell(
        arm.label, seed, fit, encoder["id"], sum(filter(None, spent)), run["summary"].get(KEPT),
        encoder["status"] == "collapsed", rows,
    )  # fmt: skip


def _kept_rows(store: Store, study: str, fit: str) -> Rows:
    """Returns the evaluations of a fit on all current test images, with the pixel rules of the two protocols."""
    query = "SELECT count(*) AS n FROM cases WHERE study = ? AND split = 'test' AND label != 'unknown'"
    images = store.first(query, [study])["n"]
    return {
        (r["protocol"], r["roi"]): r
        for r in evaluations(store, study, fit)
        if r["pixel_rule"] == RULES[r["protocol"]]
        and r["masks"] == "reference"
        and r["n_normal"] + r["n_abnormal"] == images
    }


def _rows(store: Store, study: str, fit: str, bootstrap: int) -> Rows:
    rows_by = _kept_rows(store, study, fit)
    for protocol, rule in RULES.items():
        for roi in (False, True):
            if (protocol, roi) not in rows_by:
                settings = {"pixel_rule": rule, "bootstrap": bootstrap}
                rows_by[protocol, roi] = evaluate_run(store, fit, roi, protocol, "reference", **settings)
    return rows_by


def _test(store: Store, cell: Cell) -> tuple[str, StudyArrays, np.ndarray]:
    """Returns the study of a cell, its image arrays, and the indices of the test cases with known labels."""
    run = runs.get_run(store, cell.fit)
    arrays = load_arrays(store, run["study"], size_of(store, run))
    return run["study"], arrays, known_test(arrays)


def scores_of(store: Store, cell: Cell, roi: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scores and the labels, both `(N,)`, of the N test cases with known labels; 1 means abnormal."""
    _, arrays, test = _test(store, cell)
    labels = (arrays.label[test] == "abnormal").astype(int)
    return read_scores(store, cell.fit, arrays.case_ids[test], roi), labels


def patients_in(store: Store, cell: Cell, masked: bool = False) -> np.ndarray | None:
    """Returns the patients of the test cases with known labels (and lesion masks, if `masked`), or None if unknown."""
    study, arrays, test = _test(store, cell)
    test = test[arrays.has_mask[test].astype(bool)] if masked else test
    return patients_of(store, study, arrays.case_ids[test])


def dice_of(store: Store, cell: Cell, roi: bool, protocol: str) -> np.ndarray:
    """Returns the Dice coefficients `(M,)` of the M test cases with a known label and a lesion mask.

    Predicted regions are outlined at the pixel threshold in `cell.rows[protocol, roi]`. A coefficient is NaN if the
    case has no lesion pixel in the region of interest. The result is empty if there are no masks or no pixel threshold.
    """
    row = cell.rows[protocol, roi]
    level = row.get("pixel_threshold")
    _, arrays, test = _test(store, cell)
    sick = test[arrays.has_mask[test].astype(bool)]
    if level is None or not len(sick):
        return np.zeros(0)
    masks, inside = np.asarray(arrays.masks[sick]), np.asarray(arrays.roi[sick]) > 0 if roi else None
    cells = read_maps(store, cell.fit, arrays.case_ids[sick])
    scale = pixels_of(runs.get_run(store, cell.fit), roi) if row.get("outline_share") is not None else None
    scale = scale or PixelScale(level, level, level)
    highest = peaks(cells, np.asarray(arrays.roi[sick]) if roi else None, scale)
    marked = outlined(upsample(cells, masks.shape[1]), level_of(highest, scale), scale, inside)
    return overlaps_of(marked, masks, inside)[0]


def reset_peak() -> None:
    """Resets the peak memory of the GPU or, without a GPU, that of this process if the system allows it."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:  # Linux only, if allowed;
        file.write("5")  # otherwise the peak is measured since the start of the process


def peak_bytes() -> int:
    """Returns the peak memory since `reset_peak`, in bytes."""
    import torch

    return most_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
