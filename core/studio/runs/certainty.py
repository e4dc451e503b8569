"""Reliability of a case's score: whether mirroring or enlarging the image changes the result, and whether the members
of a combined detector agree. The results are stored in the score's field `extra` and shown to readers as sentences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.runs import records as runs
from core.studio.runs.operating import FLAG_PERCENTILE
from core.studio.runs.readings import add_extra, size_of

# Each image needs four more detector passes: minutes on a CPU for this number, an hour for a large study.
STEADY_CASES = 1000
CHUNK = 32  # images between two calls of should_stop
UNUSUAL = 1.645  # standard deviations from the mean; 5 % of a normal distribution are above
MEMBERS = {"head": "the lesion head", "padim": "PaDiM"}


def wanted(store: Store, run_id: str, asked: bool | None = None) -> bool:
    """Returns whether to test the steadiness of scores: `asked` or, by default, whether few cases were scored."""
    if asked is not None:
        return asked
    return store.first("SELECT count(*) AS n FROM readings WHERE run = ?", [run_id])["n"] <= STEADY_CASES


def add_steadiness(
    store: Store,
    run_id: str,
    device: str = "auto",
    should_stop: Callable[[], bool] = lambda: False,
    report: Callable[[dict], None] = lambda values: None,
) -> int:
    """Scores mirrored and enlarged views of a run's held-out and test cases; returns the number of cases.

    The results are stored with the scores. The percentile of a mirrored or enlarged view is computed among the same
    views of held-out normal images, so that a change that affects all images alike is not reported as unsteadiness.
    Raises Stopped if `should_stop` returns True.
    """
    from core.engine.calibration.percentiles import Calibration
    from core.engine.detectors.uncertainty import scores_of_views
    from core.engine.progress import Stopped
    from core.studio.ingest.cache import load_arrays
    from core.studio.runs.scoring import load_detector

    run = runs.get_run(store, run_id)
    detector = load_detector(store, run_id, device)
    arrays = load_arrays(store, run["study"], size_of(store, run))
    holdout, test = arrays.index("holdout", label="normal"), arrays.index("test")
    done = 0

    def views(index: np.ndarray) -> np.ndarray:
        """Scores V views of the images in the rows `index` (n,) inside the region of interest; returns (V, n)."""
        nonlocal done
        if should_stop():
            raise Stopped("scoring was stopped; the scores are kept, but their steadiness is unknown")
        report({"message": f"Testing how steady the scores are: {done} of {len(holdout) + len(test)}"})
        done += len(index)
        images, roi = np.array(rows_of(arrays.images, index)), np.array(rows_of(arrays.roi, index))
        return scores_of_views(detector, images, roi).astype(np.float64)

    normal = np.concatenate([views(holdout[i : i + CHUNK]) for i in range(0, len(holdout), CHUNK)], axis=1)
    calibrations = [Calibration.of(scores) for scores in normal]
    spread = float(normal[0].std())
    _write(store, run_id, arrays.case_ids[holdout], normal, calibrations, spread)
    for start in range(0, len(test), CHUNK):
        chunk = test[start : start + CHUNK]
        _write(store, run_id, arrays.case_ids[chunk], views(chunk), calibrations, spread)
    return done


def _write(store: Store, run_id: str, ids: np.ndarray, scores: np.ndarray, calibrations: list, spread: float) -> None:
    percentiles = np.stack([c.percentile(s) for c, s in zip(calibrations, scores, strict=True)])
    flags = np.stack([c.flagged(s, FLAG_PERCENTILE) for c, s in zip(calibrations, scores, strict=True)])
    by_case = {
        int(case_id): {
            "flagged": flags[:, i].tolist(),
            "percentile": [round(float(p), 2) for p in percentiles[:, i]],
            "sd": float(scores[:, i].std()),
            "spread": spread,
        }
        for i, case_id in enumerate(ids)
    }
    add_extra(store, run_id, "steady", by_case)


def described(extra: dict) -> dict:
    """Describes in sentences how reliable the score of a case is, based on the field `extra` of the stored score.

    Returns {"steady": effect of mirroring and enlarging, "members": agreement of a combined detector's members}. Each
    value is {"ok", "words", "more": details}, or None if this was not tested.
    """
    return {"steady": _steady(extra.get("steady")), "members": _members(extra)}


def _steady(steady: dict | None) -> dict | None:
    if not steady:
        return None
    flagged, views = sum(steady["flagged"]), len(steady["flagged"])
    low, high = min(steady["percentile"]), max(steady["percentile"])
    more = f"Percentile {low:.1f} to {high:.1f} over {views} views: mirrored, enlarged, both, and unchanged."
    if flagged in (0, views):
        return {"ok": True, "words": "Steady under mirroring and zoom.", "more": more}
    words = f"Unsteady: flagged in {flagged} of {views} views (mirrored, enlarged)."
    return {"ok": False, "words": words, "more": more}


def _members(extra: dict) -> dict | None:
    """Describes the scores of a combined detector's members, in standard deviations of held-out normal images."""
    several = extra.get("members")
    if isinstance(several, list) and len(several) > 1:  # an ensemble: each member's score
        unusual = sum(value > UNUSUAL for value in several)
        listed = ", ".join(f"{value:+.1f}" for value in several)
        more = f"{listed} standard deviations from the mean of normal images; above {UNUSUAL:.1f} is unusual."
        return {
            "ok": unusual in (0, len(several)),
            "words": f"{unusual} of {len(several)} detectors find the image unusual.",
            "more": more,
        }
    values = {name: extra[name] for name in MEMBERS if isinstance(extra.get(name), (int, float))}
    if len(values) < 2:
        return None
    readings = ", ".join(f"{MEMBERS[name].removeprefix('the ')} {value:+.1f}" for name, value in values.items())
    unusual = [name for name, value in values.items() if value > UNUSUAL]
    more = f"{readings} standard deviations from the mean of normal images; above {UNUSUAL:.1f} is unusual."
    if len(unusual) == len(values):
        return {"ok": True, "words": f"Both detectors find the image unusual: {readings}.", "more": more}
    if not unusual:
        return {"ok": True, "words": f"Neither detector finds the image unusual: {readings}.", "more": more}
    words = f"The detectors differ: only {MEMBERS[unusual[0]]} finds the image unusual ({readings})."
    return {"ok": False, "words": words, "more": more}
