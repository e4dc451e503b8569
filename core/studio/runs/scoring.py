"""Computes scores and heat maps, and the order in which readers should annotate cases.

Scores are computed for held-out and test cases, including cases imported later. A detector learns most from cases whose
heat map is uncertain, or whose most abnormal position is unlike all annotated lesions. Every fifth case of the order is
drawn at random, because an order by uncertainty never shows cases that are confidently wrong.
"""

from __future__ import annotations

import json
import tempfile
import time
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import scipy  # scipy.stats takes a second to load, so it is loaded on first use
from safetensors import SafetensorError

from core.engine.calibration.outlines import learn_share, level_of, not_judged, peaks, seen_rows
from core.engine.calibration.percentiles import Calibration, PixelScale
from core.engine.detectors.base import Detector
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.rows import Some, rows_of
from core.engine.tensors import keep_freed_memory, pick_device
from core.studio.db import journal
from core.studio.db.seals import Damaged
from core.studio.db.store import Store
from core.studio.ingest.originals import image_of
from core.studio.ingest.patients import patients_of
from core.studio.ingest.resize import prepare
from core.studio.ingest.studies import StudyArrays, load_arrays
from core.studio.ingest.unreadable import Unreadable
from core.studio.jobs.steps import Report, Stop, loading, never, nothing
from core.studio.runs import marks, weights
from core.studio.runs import records as runs
from core.studio.runs.operating import FLAG_PERCENTILE
from core.studio.runs.pooled import kept
from core.studio.runs.preferred import LEARNT
from core.studio.runs.readings import MOST_EXTRAS, OUTLINE, reading_rows, size_of, write_readings

SEEN_SIDE = 32  # side length of the grid that stores which positions normal images show
CHUNK = 64  # images scored between two calls of should_stop

Seen = tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]


def load_detector(store: Store, run_id: str, device: str = "auto"):
    """Loads a run's detector. Raises ValueError if the run is not a finished fit, and Damaged if its files changed."""
    run = runs.get_run(store, run_id)
    if run["kind"] != "fit" or run["status"] != "done":
        raise ValueError(f"{run_id} is not a finished fit (kind {run['kind']}, status {run['status']})")
    weights.check(store, run_id)
    try:
        return DETECTORS.get(run["method"]).load(runs.run_folder(store, run_id), pick_device(device))
    except (OSError, KeyError, RuntimeError, SafetensorError, json.JSONDecodeError) as error:
        raise Damaged(weights.sentence(run, str(error))) from error


def score_run(
    store: Store, run_id: str, device: str = "auto", should_stop: Stop = never, report: Report = nothing
) -> dict:
    """Scores all held-out and test cases; returns {"cases", "seconds", "threshold", "threshold_roi"}.

    Held-out normal images, on which percentiles and flags depend, are scored first. Raises ValueError if there are
    none.
    """
    started = time.monotonic()
    keep_freed_memory()
    run = runs.get_run(store, run_id)
    detector = load_detector(store, run_id, device)
    arrays, holdout, test = _arrays(store, run, report)
    with tempfile.TemporaryFile(dir=runs.run_folder(store, run_id)) as file:
        with kept(store, run["study"]):
            maps, scores, extras = _whole(detector, arrays, holdout, should_stop, file)
        patients = patients_of(store, run["study"], arrays.case_ids[holdout])
        calibrations = {
            "plain": Calibration.of(scores["plain"], maps, patients=patients),
            "roi": Calibration.of(scores["roi"], maps, rows_of(arrays.roi, holdout), patients),
        }
        outline = _outline(detector, arrays, holdout, calibrations["roi"].pixels, should_stop)
        calibrations = {kind: calibration.outlined_by(**outline) for kind, calibration in calibrations.items()}
        pixels = calibrations["roi"].pixels
        assert pixels is not None  # because the calibration has heat maps
        drawn = {"pixels": pixels._asdict()}  # stored first, because Review shows heat maps from the first one on
        runs.update_run(store, run_id, summary={**run["summary"], **drawn})
        for start in range(0, len(holdout), CHUNK):
            rows = slice(start, start + CHUNK)
            results = (maps[rows], _cut(scores, rows), _cut(extras, rows))
            ids = arrays.case_ids[holdout[rows]]
            write_readings(store, _rows(store, run_id, ids, results, calibrations, rows_of(arrays.roi, holdout[rows])))
    with kept(store, run["study"]):
        for start in range(0, len(test), CHUNK):
            chunk = test[start : start + CHUNK]
            report({"step": len(holdout) + start, "steps": len(holdout) + len(test)})
            _check(should_stop)
            results = _look_at(detector, arrays, chunk)
            roi = rows_of(arrays.roi, chunk)
            write_readings(store, _rows(store, run_id, arrays.case_ids[chunk], results, calibrations, roi))
    seconds = time.monotonic() - started
    summary = {
        "scored": len(holdout) + len(test),
        "score_seconds": seconds,
        "threshold": float(calibrations["plain"].threshold(FLAG_PERCENTILE)),
        "threshold_roi": float(calibrations["roi"].threshold(FLAG_PERCENTILE)),
        "calibration": {kind: c.to_dict() for kind, c in calibrations.items()},
        **drawn,
    }
    runs.update_run(store, run_id, summary={**run["summary"], **summary})
    keep_order(store, run_id)
    return {
        "cases": len(holdout) + len(test),
        "seconds": seconds,
        **{k: summary[k] for k in ("threshold", "threshold_roi")},
    }


def _outline(
    detector: Detector, arrays: StudyArrays, holdout: np.ndarray, scale: PixelScale | None, should_stop: Stop
) -> dict[str, Any]:
    """Returns the arguments of `Calibration.outlined_by`: `places`, the positions that normal training images show, and
    `level`, the detector's own outline level, or else `share`, fitted to lesions pasted into held-out normal images."""
    assert scale is not None  # because the calibration has heat maps
    train = arrays.index("train")
    regions = Some(arrays.roi, train if len(train) else holdout)
    scale = scale._replace(seen=seen_rows(regions, SEEN_SIDE))
    level = detector.outline_level()
    if level is not None:
        return {"share": None, "places": scale.seen, "level": level}

    def predict(images: np.ndarray, roi: np.ndarray) -> np.ndarray:
        _check(should_stop)
        return detector.predict(images, roi=roi).maps

    return {
        "share": learn_share(predict, Some(arrays.images, holdout), Some(arrays.roi, holdout), scale),
        "places": scale.seen,
    }


def _arrays(store: Store, run: dict, report: Report = nothing) -> tuple[StudyArrays, np.ndarray, np.ndarray]:
    """Returns a study's image arrays, the rows of its held-out normal images, and the rows of its test cases."""
    arrays = load_arrays(store, run["study"], size_of(store, run), loading(report))
    holdout = arrays.index("holdout", label="normal")
    if not len(holdout):
        raise ValueError(
            f"study {run['study']} has no held-out normal images for the threshold: import more normal images"
        )
    return arrays, holdout, arrays.index("test")


def _look_at(detector: Detector, arrays: StudyArrays, rows: np.ndarray) -> Seen:
    images, roi = (np.array(rows_of(array, rows)) for array in (arrays.images, arrays.roi))
    return look(detector, images, roi)


def look(detector: Detector, images: np.ndarray, roi: np.ndarray) -> Seen:
    """Runs a detector on images uint8 (N, S, S, 3) with regions of interest uint8 (N, S, S).

    Returns a tuple: heat maps (N, h, w), scores {"plain": of the whole image, "roi": of the region of interest}, each
    float64 (N,), and the detector's other outputs by name.
    """
    prediction = detector.predict(images, roi=roi)
    scores = {"plain": detector.image_score(prediction), "roi": detector.image_score(prediction, roi)}
    extras = {name: np.asarray(values) for name, values in prediction.extras.items()}
    return prediction.maps, {kind: np.asarray(values, np.float64) for kind, values in scores.items()}, extras


def _whole(detector: Detector, arrays: StudyArrays, index: np.ndarray, should_stop: Stop, file: IO[bytes]) -> Seen:
    """Runs `look` on the rows `index`; stores the heat maps in `file` and drops extra values that are maps."""
    scores, extras, shape = [], [], (0, 0)
    for start in range(0, len(index), CHUNK):
        _check(should_stop)
        chunk = index[start : start + CHUNK]
        results = _look_at(detector, arrays, chunk)
        maps, shape = np.ascontiguousarray(results[0], np.float32), results[0].shape[1:]
        file.write(maps.tobytes())
        scores.append(results[1])
        extras.append({name: values for name, values in results[2].items() if values[0].size <= MOST_EXTRAS})
    file.flush()
    return np.memmap(file, np.float32, "r", shape=(len(index), *shape)), _joined(scores), _joined(extras)


def _cut(values: dict[str, np.ndarray], rows: slice) -> dict[str, np.ndarray]:
    return {name: array[rows] for name, array in values.items()}


def _joined(batches: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def _check(should_stop: Stop) -> None:
    if should_stop():
        raise Stopped("scoring was stopped; it will start again with the held-out normal images")


def _rows(
    store: Store, run_id: str, case_ids: np.ndarray, looked: Seen, calibrations: dict[str, Calibration], roi: np.ndarray
) -> list[dict]:
    maps, scores, extras = looked
    scale = calibrations["roi"].pixels
    if scale is not None and scale.apart:
        extras = {**extras, OUTLINE: level_of(peaks(maps, roi, scale), scale)}
    hidden = None if scale is None else not_judged(maps.shape, scale, roi)
    return reading_rows(store, run_id, case_ids, maps, scores, calibrations, extras, hidden)


def score_new(
    store: Store, run_id: str, device: str = "auto", should_stop: Stop = never, report: Report = nothing
) -> int:
    """Scores the test cases that the run has not scored yet; returns their number.

    If the run has no scores yet, all cases are scored. If `should_stop` returns True, Stopped is raised and stored
    scores are kept. Unreadable files are skipped and logged.
    """
    run = runs.get_run(store, run_id)
    calibration = run["summary"].get("calibration")
    if not calibration:
        return score_run(store, run_id, device, should_stop, report)["cases"]
    cases = store.query(
        "SELECT id, name, path, frame, sha256, scale FROM cases c WHERE study = ? AND split = 'test' AND NOT EXISTS "
        '(SELECT 1 FROM readings r WHERE r.run = ? AND r.case_id = c.id) ORDER BY "row"',
        [run["study"], run_id],
    )
    if not cases:
        return 0
    detector = load_detector(store, run_id, device)
    calibrations = {kind: Calibration.from_dict(values) for kind, values in calibration.items()}
    size, done = size_of(store, run), 0
    for start in range(0, len(cases), CHUNK):
        if should_stop():
            raise Stopped("scoring was stopped; the scores that are stored are kept")
        report({"step": start, "steps": len(cases), "message": f"Scoring {start} of {len(cases)} new cases"})
        ids, prepared = [], []
        for case in cases[start : start + CHUNK]:
            try:
                prepared.append(prepare(image_of(case), size))
                ids.append(case["id"])
            except (Unreadable, OSError) as error:
                journal.log(store, run_id, f"{case['name']} was not scored: {error}")
        if not ids:
            continue
        images, rois = (np.stack(column) for column in zip(*prepared, strict=True))
        results = look(detector, images, rois)
        write_readings(store, _rows(store, run_id, np.array(ids, np.int64), results, calibrations, rois))
        done += len(ids)
    keep_order(store, run_id)
    return done


CHANCE = 5  # every CHANCE-th case is drawn at random
WORDS = {"unsure": "uncertain outline", "novelty": "unlike annotated lesions", "chance": "drawn at random"}


def ordered(unsure: np.ndarray, novelty: np.ndarray, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Orders cases by how much a detector would learn from their annotation, most informative first.

    Cases are sorted by the sum of two ranks: of `unsure` (N,), the uncertainty of the outline, and of `novelty` (N,),
    the distance from annotated lesions. Every CHANCE-th case is drawn at random instead. Returns the indices of the
    cases (N,), and a reason for each position, one of the texts of WORDS.
    """
    count = len(unsure)
    ranks = np.stack([scipy.stats.rankdata(values) for values in (unsure, novelty)])
    waiting = np.argsort(-ranks.sum(0), kind="stable").tolist()
    draw = np.random.default_rng(seed)
    order, words = [], []
    for number in range(1, count + 1):
        by_chance = number % CHANCE == 0
        case = waiting.pop(int(draw.integers(len(waiting))) if by_chance else 0)
        order.append(case)
        words.append(WORDS["chance" if by_chance else ("unsure", "novelty")[int(ranks[:, case].argmax())]])
    return np.array(order, int), words


def keep_order(store: Store, run: str) -> int:
    """Stores the order in which a scored run's test cases should be annotated (see `ordered`); returns their number.

    Cases that the run has learned from are skipped. Returns 0 if the run has not learned from annotations.
    """
    if runs.get_run(store, run)["method"] != LEARNT:
        return 0  # returned early, so that its large readings are not read
    rows = store.query(
        "SELECT r.case_id AS id, json_extract(r.extra, '$.unsure') AS unsure, json_extract(r.extra, '$.novelty') AS "
        "novelty FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test' ORDER BY c.id",
        [run],
    )
    learnt = marks.learnt_from(store, run)
    rows = [row for row in rows if row["unsure"] is not None and row["id"] not in learnt]
    unsure, novelty = (np.array([row[k] for row in rows]) for k in ("unsure", "novelty"))
    order, words = ordered(unsure, novelty, zlib.crc32(run.encode()))
    with store.write() as db:
        db.execute("DELETE FROM next_marks WHERE run = ?", [run])
        db.table("next_marks").insert_all(
            {"run": run, "case_id": rows[case]["id"], "value": len(rows) - position, "why": why}
            for position, (case, why) in enumerate(zip(order, words, strict=True))
        )
    return len(rows)
