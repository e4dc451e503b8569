"""Measures the reliability of a run's threshold and scores: false alarms, missed lesions, drift and calibration.

`measure` computes everything that needs predictions and stores the results with the run. `reliability` combines these
results with data from the database.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from core.engine.augment.config import MedMixConfig
from core.engine.calibration import drift
from core.engine.calibration.planted import KINDS, Planted, sensitivity
from core.engine.progress import Stop, Stopped
from core.studio.db.store import Row, Store, now
from core.studio.ingest.cache import StudyArrays, load_arrays
from core.studio.ingest.patients import UNKNOWN, patients_of
from core.studio.jobs.steps import Work, never
from core.studio.review.cases import scored_runs
from core.studio.review.results import Scored, promise, scored, truth_of, wilson
from core.studio.runs import records as runs
from core.studio.runs.operating import in_effect, level_of
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import load_detector, look

KEPT = "believe"  # key in the run's summary
ENOUGH = 30  # minimum number of normal and of abnormal cases for a calibration
FOLDS = 5  # cross-validation folds of a calibration; normal and abnormal cases each need twice as many patients
MANY = 500  # number of cases from which isotonic regression replaces Platt scaling
BINS = 10
SHOWN = 4  # example images of each group
CHANGED = "Images {of}have changed since {day}"
PAUSED = "Paused: the promise holds for images like the held-out ones, but images have changed."


def measure(store: Store, run_id: str, device: str = "auto") -> dict[str, Any]:
    """Measures how many synthetic lesions a run flags and how new images differ from held-out ones; stores the results.

    Returns {"threshold": threshold in effect, "planted": fields of `Planted` for each size and contrast, "groups": by
    device or day of import, fields of `Changed` for each image measure, "pictures": ids of example cases by group, only
    for groups that differ, as {"usual", "new"}, "made": time of the measurement}. Example cases are the most typical in
    the measure that differs most. Raises ValueError if the run has not scored its study.
    """
    run = runs.get_run(store, run_id)
    arrays = load_arrays(store, run["study"], size_of(store, run))
    holdout = arrays.index("holdout", label="normal")
    threshold, rows = _planted(store, run, arrays, holdout, device)
    devices = _devices(store, arrays.case_ids[holdout])
    row_of = {int(case): k for k, case in enumerate(arrays.case_ids)}
    plain = drift.measures(np.asarray(arrays.images[holdout]))
    groups, pictures = {}, {}
    for group, cases in _by_group(_new(store, run["study"], run_id)).items():
        recent = [c for c in cases if c in row_of][-200:]
        reference = _held_out_for(devices, group)
        usual = {name: values[reference] for name, values in plain.items()}
        new = drift.measures(np.stack([np.asarray(arrays.images[row_of[c]]) for c in recent]))
        compared = drift.compare(usual, new)
        groups[group] = [{**row._asdict(), "matters": row.matters} for row in compared]
        if compared and compared[0].matters:
            key = compared[0].measure
            sides = {"usual": (usual[key], arrays.case_ids[holdout][reference]), "new": (new[key], np.array(recent))}
            pictures[group] = {side: _middle(*pair) for side, pair in sides.items()}
    measured = {"threshold": threshold, "planted": [r._asdict() for r in rows], "groups": groups, "pictures": pictures,
            "made": now()}  # fmt: skip
    runs.update_run(store, run_id, summary={**runs.get_run(store, run_id)["summary"], KEPT: measured})
    return measured


def planted_sensitivity(
    store: Store, study: str, config: MedMixConfig, device: str = "auto", should_stop: Stop = never
) -> dict[str, Any]:
    """Measures how often the study's default run flags held-out normals into which MedMix pasted a synthetic lesion.

    Returns {"run": id of the run, "name", "threshold", "planted": fields of `Planted` for each size and opacity, with
    the fraction of flagged images, as `wilson` returns it, under "found"}. Raises ValueError if no run has scored the
    study or no normal images are held out, and Stopped if `should_stop` returns True.
    """
    scored_by = scored_runs(store, study)
    if not scored_by:
        raise ValueError("No run has scored this study yet: take a first look, or train one.")
    run = runs.get_run(store, scored_by[0]["id"])
    arrays = load_arrays(store, study, size_of(store, run))
    holdout = arrays.index("holdout", label="normal")
    if not len(holdout):
        raise ValueError("This study has no held-out normal images, which the measurement needs.")
    threshold, rows = _planted(store, run, arrays, holdout, device, [config], should_stop)
    shares = [{**row._asdict(), "found": wilson(row.flagged, row.images)} for row in rows]
    return {"run": run["id"], "name": run["name"], "threshold": threshold, "planted": shares}


def _planted(
    store: Store,
    run: Row,
    arrays: StudyArrays,
    holdout: np.ndarray,
    device: str,
    kinds: Sequence[MedMixConfig] = KINDS,
    should_stop: Stop = never,
) -> tuple[float, list[Planted]]:
    """Returns the threshold in effect and how many images with synthetic lesions exceed the threshold."""
    detector = load_detector(store, run["id"], device)
    threshold = level_of(store, run["id"], in_effect(store, run["id"])[run["id"]])
    if threshold is None:
        raise ValueError(f"run {run['id']} has not scored its study yet")

    def score(images: np.ndarray, roi: np.ndarray) -> np.ndarray:
        if should_stop():
            raise Stopped
        return look(detector, images, roi)[1]["roi"]

    images, roi = np.asarray(arrays.images[holdout]), np.asarray(arrays.roi[holdout])
    return threshold, sensitivity(score, images, roi, threshold, kinds=kinds)


def measured(work: Work) -> None:
    """Runs `measure` as a job, on the job's run."""
    measure(work.store, work.run, work.device)


def _middle(values: np.ndarray, cases: np.ndarray) -> list[int]:
    return [int(case) for case in cases[np.argsort(np.abs(values - np.median(values)), kind="stable")[:SHOWN]]]


def reliability(store: Store, study: str, run_id: str) -> dict[str, Any]:
    """Returns all results on the reliability of a run's threshold and scores.

    Returns {"promise": result of `promise`, "planted": stored results of `measure`, "changed": result of `alarm`,
    "plain": image measures in which new images differ from held-out ones, by device or day of import, "calibration":
    result of `calibration`, "enough": ENOUGH, "made": time of `measure`}. Results that lack enough data are None or [].
    """
    cases = scored(store, study, run_id)
    stored = runs.get_run(store, run_id)["summary"].get(KEPT) or {}
    changed, promised = alarm(store, study, run_id, cases), promise(store, study, cases)
    if promised and changed and changed["since"]:
        promised |= {"guarantee": PAUSED, "paused": True}
    existing = {row["id"] for row in store.query("SELECT id FROM cases WHERE study = ?", [study])}
    plain = []
    for group, rows in stored.get("groups", {}).items():
        sides = stored.get("pictures", {}).get(group, {})
        kept_sides = {side: [c for c in few if c in existing] for side, few in sides.items()}
        plain += [{"of": _day(group), "pictures": kept_sides or None, "rows": [row for row in rows if row["matters"]]}]
    return {
        "promise": promised,
        "planted": [{**row, "found": wilson(row["flagged"], row["images"])} for row in stored.get("planted", [])],
        "changed": changed,
        "plain": [group for group in plain if group["rows"]],
        "calibration": calibration(store, study, cases),
        "enough": ENOUGH,
        "made": stored.get("made"),
    }


class _Came(NamedTuple):
    """A new case that counts as normal. device: Device that took the image, or None if the device is unknown."""

    case: int
    day: str
    device: str | None


def _new(store: Store, study: str, run_id: str) -> list[_Came]:
    """Returns the test cases, in order of import, that were added after the day of the first import and count as normal
    by the last decision or, without a decision, because the run does not flag them."""
    rows = store.query(
        "SELECT c.id, substr(c.added, 1, 10) AS day, c.device, (SELECT k.decision FROM current_reviews k "
        "WHERE k.case_id = c.id "
        "ORDER BY k.stage = 'adjudication' DESC, k.stage = 'second' DESC, k.review_id DESC LIMIT 1) AS said, "
        "coalesce(r.flagged_roi, r.flagged) AS flagged "
        "FROM cases c JOIN readings r ON r.case_id = c.id AND r.run = ? WHERE c.study = ? AND c.split = 'test' "
        "AND substr(c.added, 1, 10) > (SELECT substr(min(added), 1, 10) FROM cases WHERE study = ?) "
        "ORDER BY c.added, c.id",
        [run_id, study, study],
    )
    return [
        _Came(row["id"], row["day"], row["device"])
        for row in rows
        if row["said"] == "normal" or (row["said"] is None and not row["flagged"])
    ]


def _by_group(new: list[_Came]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for came in new:
        groups.setdefault(came.device or came.day, []).append(came.case)
    return groups


def _devices(store: Store, cases: np.ndarray) -> np.ndarray:
    rows = store.query(
        "SELECT id, device FROM cases WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(cases.tolist())]
    )
    named = {row["id"]: row["device"] for row in rows}
    return np.array([named.get(int(case)) for case in cases], object)


def _held_out_for(devices: np.ndarray, device: str | None) -> np.ndarray:
    """Returns a mask, bool (n,), of the held-out images of a device, or of all held-out images if these are too few."""
    same_device = np.asarray(devices == device)
    return same_device if same_device.sum() >= drift.LEAST else np.ones_like(same_device)


def alarm(store: Store, study: str, run_id: str, cases: Scored) -> dict[str, Any] | None:
    """Tests with a martingale over all imports whether new normal images still score like held-out normals.

    cases: Result of `scored` for the run.

    Returns {"cases": number of new cases, "capital": largest value of the martingale, which bets against exchangeable
    scores, "since": day on which the capital reached the alarm level, or None, "words": summary, "caveat": warning if
    patients are unknown}, or None if there are too few cases to compare.

    Each device has its own martingale with an equal share of the initial capital, so that more devices do not make an
    alarm more likely. A device is compared with its own held-out normals if there are enough, otherwise with all.
    Held-out normals above the run's threshold are excluded, because flagged new cases do not count as normal either. If
    patients are known, only each patient's first image counts, and new images of earlier patients are excluded.
    """
    score = dict(zip(cases.ids.tolist(), cases.scores.tolist(), strict=True))
    new = [came for came in _new(store, study, run_id) if came.case in score]
    holdout = cases.where((cases.split == "holdout") & (cases.label == "normal") & ~cases.flagged)
    holdout = holdout.where(np.argsort(holdout.ids))  # in order of import, as the new ones are
    learnt = [row["id"] for row in store.query("SELECT id FROM cases WHERE study = ? AND split = 'train'", [study])]
    whose = patients_of(store, study, np.concatenate([learnt, holdout.ids, [came.case for came in new]]).astype(int))
    if whose is not None:
        trained, held_out, arrived = np.split(whose, [len(learnt), len(learnt) + len(holdout)])
        holdout, earlier = holdout.where(drift.first_of_each(held_out)), {*trained.tolist(), *held_out.tolist()}
        new = [new[i] for i in drift.first_of_each(arrived) if arrived[i] not in earlier]
    if not new or len(holdout) < drift.LEAST:
        return None
    devices = _devices(store, holdout.ids)
    series = [(device, list(came)) for device, came in groupby(sorted(new, key=_device), key=_device)]
    capitals: list[float] = []
    alarms: list[tuple[str, str]] = []
    for device, came in series:
        usual = holdout.scores[_held_out_for(devices, device or None)]
        capital = drift.jumper(drift.online_p_values(usual, np.array([score[case.case] for case in came])))
        capitals.append(float(capital.max()))
        first = drift.first_alarm(capital, drift.ALARM * len(series))
        if first is not None:
            alarms.append((came[first].day, device))
    since, device_of_alarm = min(alarms, default=(None, ""))
    return {
        "cases": len(new),
        "capital": max(capitals) / len(series),
        "since": since,
        "words": CHANGED.format(of=f"of {device_of_alarm} " if device_of_alarm else "", day=_day(since))
        if since
        else f"{len(new)} new normal cases: like the held-out ones",
        "caveat": UNKNOWN if whose is None else None,
    }


def _device(came: _Came) -> str:
    return came.device or ""


def _day(text: str) -> str:
    """Formats an ISO date as 12 March 2026, and returns any other text unchanged."""
    try:
        when = date.fromisoformat(text)
    except ValueError:
        return text
    return f"{when.day} {when:%B %Y}"


def calibration(store: Store, study: str, cases: Scored) -> dict[str, Any] | None:
    """Estimates how likely readers are to decide that a case with a given score is abnormal.

    Probabilities are cross-validated, with each patient in a single fold. The model is isotonic regression for at least
    MANY cases, and Platt scaling otherwise.

    cases: Result of `scored` for the run.

    Returns {"method", "cases": number of decided cases, "abnormal": number of abnormal cases, "points": for each bin,
    the mean probability "chance" and the `wilson` fraction of abnormal cases, "brier": Brier score, "apart": note on
    whether folds separate patients}, or None if there are too few normal or abnormal cases or patients.
    """
    tests = cases.test
    is_decided, sick = truth_of(store, study, tests, "readers")
    tests, sick = tests.where(is_decided), sick[is_decided]
    if min(int(sick.sum()), int((~sick).sum())) < ENOUGH:
        return None
    patients = patients_of(store, study, tests.ids)
    groups = np.arange(len(tests)) if patients is None else patients
    if min(len(np.unique(groups[sick])), len(np.unique(groups[~sick]))) < 2 * FOLDS:
        return None
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold

    isotonic = len(tests) >= MANY
    scale = max(float(tests.scores.std()), 1e-12)
    x = ((tests.scores - tests.scores.mean()) / scale)[:, None]
    probability = np.zeros(len(tests))
    for train, held_out in StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0).split(x, sick, groups):
        if isotonic:
            fit = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(x[train, 0], sick[train])
            probability[held_out] = fit.predict(x[held_out, 0])
        else:
            probability[held_out] = LogisticRegression().fit(x[train], sick[train]).predict_proba(x[held_out])[:, 1]
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    points = [
        {"chance": float(probability[bins == b].mean()), **wilson(int(sick[bins == b].sum()), int((bins == b).sum()))}
        for b in np.unique(bins)
    ]
    return {
        "method": "isotonic regression" if isotonic else "Platt's logistic regression",
        "cases": len(tests),
        "abnormal": int(sick.sum()),
        "points": points,
        "brier": float(((probability - sick) ** 2).mean()),
        "apart": "patients apart" if patients is not None else "cases separately: patients are not known",
    }


def as_text(measured: dict[str, Any], promise: dict[str, Any]) -> str:
    """Formats results as lines for a terminal. measured: Result of `measure`. promise: Result of `reliability`."""
    promised, changed = promise["promise"], promise["changed"]
    lines = [promised["guarantee"]] if promised else []
    lines += [changed["words"] + "."] if changed else []
    lines += sorted({entry["caveat"] for entry in (promised, changed) if entry and entry["caveat"]})
    lines.append(f"Images with synthetic lesions that are flagged at the threshold {measured['threshold']:.4g}:")
    for row in measured["planted"]:
        lines.append(f"  size {row['size']:.2f}, contrast {row['contrast']:.1f}: {row['flagged']} of {row['images']}")
    for group, rows in measured["groups"].items():
        changes = [f"{r['measure']} {r['usual']:.3f} to {r['new']:.3f}" for r in rows if r["matters"]]
        lines.append(f"Images of {_day(group)}: {'; '.join(changes) or 'as before'}")
    return "\n".join(lines)
