"""Scoring what came in later: test cases that a run has not read yet, by the scale that its held-out normals gave.

The study's arrays are not built anew for a handful of images; what is already scored stays as it is.
"""

from __future__ import annotations

import numpy as np

from core.engine.calibration import Calibration
from core.engine.detectors.base import Stopped
from core.studio import pipeline, runs
from core.studio.cache import prepare
from core.studio.decode import read_image
from core.studio.scores import size_of, write_readings
from core.studio.store import Store
from core.studio.unreadable import Unreadable


def score_new(
    store: Store,
    run_id: str,
    device: str = "auto",
    should_stop: pipeline.Stop = pipeline._never,
    report: pipeline.Report = pipeline._nothing,
) -> int:
    """Readings for the test cases that have none of this run; returns how many. A run never scored is scored whole.

    Stopped between two batches, what is read stays. A case whose file is gone is passed over and logged.
    """
    run = runs.get_run(store, run_id)
    kept = run["summary"].get("calibration")
    if not kept:
        return pipeline.score_run(store, run_id, device, should_stop, report)["cases"]
    cases = store.query(
        "SELECT id, name, path, frame FROM cases c WHERE study = ? AND split = 'test' AND NOT EXISTS "
        '(SELECT 1 FROM readings r WHERE r.run = ? AND r.case_id = c.id) ORDER BY "row"',
        [run["study"], run_id],
    )
    if not cases:
        return 0
    detector = pipeline.load_detector(store, run_id, device)
    calibrations = {kind: Calibration.from_dict(values) for kind, values in kept.items()}
    size, done = size_of(store, run), 0
    for start in range(0, len(cases), pipeline.CHUNK):
        if should_stop():
            raise Stopped("scoring was stopped; what is read already stays")
        report({"step": start, "steps": len(cases), "message": f"Scoring {start} of {len(cases)} new cases"})
        ids, prepared = [], []
        for case in cases[start : start + pipeline.CHUNK]:
            try:
                prepared.append(prepare(read_image(case["path"], case["frame"]), size))
                ids.append(case["id"])
            except (Unreadable, OSError) as error:
                runs.log(store, run_id, f"{case['name']} was not scored: {error}")
        if not ids:
            continue
        images, rois = (np.stack(part) for part in zip(*prepared, strict=True))
        prediction = detector.predict(images)
        scores = {"plain": detector.image_score(prediction), "roi": detector.image_score(prediction, rois)}
        scores = {kind: np.asarray(values, np.float64) for kind, values in scores.items()}
        extras = {name: np.asarray(values) for name, values in prediction.extras.items()}
        write_readings(store, run_id, np.array(ids, np.int64), prediction.maps, scores, calibrations, extras)
        done += len(ids)
    return done
