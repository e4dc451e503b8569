"""Measures the reliability of a run's threshold and scores: false alarms, missed lesions, drift, calibration.

`measure` makes the measurements that need predictions (planted lesions, changed images) and stores them with the run;
`believed` combines them with facts from the database.
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
ENOUGH = 30  # decided cases of each kind, from which scores are calibrated
FOLDS = 5  # of a calibration, split by patients; each kind needs twice as many patients
MANY = 500  # cases from which isotonic regression replaces Platt's
BINS = 10
SHOWN = 4  # pictures shown of each side
CHANGED = "Images {of}have changed since {day}"
PAUSED = "Paused: what is promised of images like the held-out ones does not hold for images that have changed."


def measure(store: Store, run_id: str, device: str = "auto") -> dict[str, Any]:
    """Plants lesions into held-out normals, compares held-out with new images, and stores the outcome with the run.

    Returns {"threshold": the one in effect, "planted": rows of `Planted`, "groups": {device, or day of import: rows of
    `Changed`}, "pictures": {same keys: {"usual", "new": cases}}, "made": the time}. The pictures show cases with a
    typical value of the measure that differs most. Raises ValueError if the run has not scored its study.
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
            of = compared[0].measure
            sides = {"usual": (usual[of], arrays.case_ids[holdout][reference]), "new": (new[of], np.array(recent))}
            pictures[group] = {side: _middle(*pair) for side, pair in sides.items()}
    measured = {"threshold": threshold, "planted": [r._asdict() for r in rows], "groups": groups, "pictures": pictures,
            "made": now()}  # fmt: skip
    runs.update_run(store, run_id, summary={**runs.get_run(store, run_id)["summary"], KEPT: measured})
    return measured


def missed(
    store: Store, study: str, config: MedMixConfig, device: str = "auto", should_stop: Stop = never
) -> dict[str, Any]:
    """Measures which lesions, planted into held-out normals with MedMix settings, the study's default run misses.

    Returns {"run", "name", "threshold", "planted": rows of `Planted` by size and opacity, each with its share "found"}.
    Stores nothing. Raises ValueError if no run has scored the study or no normals are held out; may raise Stopped.
    """
    scored_by = scored_runs(store, study)
    if not scored_by:
        raise ValueError("No run has scored this study yet: take a first look, or train one.")
    run = runs.get_run(store, scored_by[0]["id"])
    arrays = load_arrays(store, study, size_of(store, run))
    holdout = arrays.index("holdout", label="normal")
    if not len(holdout):
        raise ValueError("No normal images are held out in this study: there is nothing to plant lesions into.")
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
    """Returns the threshold in effect and how many planted lesions it flags. Raises Stopped if asked to stop."""
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
    """Runs `measure` as a job."""
    measure(work.store, work.run, work.device)


def _middle(values: np.ndarray, cases: np.ndarray) -> list[int]:
    return [int(case) for case in cases[np.argsort(np.abs(values - np.median(values)), kind="stable")[:SHOWN]]]


def believed(store: Store, study: str, run_id: str) -> dict[str, Any]:
    """Returns the facts on the reliability of a run's threshold and scores; with too little data, one is None or empty.

    Returns {"promise", "planted", "changed", "plain", "calibration", "enough", "made"}. plain: the image measures in
    which new images differ, by device or, if it is unknown, by day of import, with example cases of both groups.
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


# Drift: cases that nobody calls abnormal, in order of import, by the device that took them.


class _Came(NamedTuple):
    """A new case that counts as normal. device: the device that took its image, None if the file names none."""

    case: int
    day: str
    device: str | None


def _new(store: Store, study: str, run_id: str) -> list[_Came]:
    """Returns the test cases added after the day of the first import that count as normal by their readers' last
    decision or, without one, because the run does not flag them; in order of import."""
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
    """Groups cases by the device that took them, or by their day of import if it is unknown."""
    groups: dict[str, list[int]] = {}
    for came in new:
        groups.setdefault(came.device or came.day, []).append(came.case)
    return groups


def _devices(store: Store, cases: np.ndarray) -> np.ndarray:
    """Returns the device (n,) that took each case's image, or None."""
    rows = store.query(
        "SELECT id, device FROM cases WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(cases.tolist())]
    )
    named = {row["id"]: row["device"] for row in rows}
    return np.array([named.get(int(case)) for case in cases], object)


def _held_out_for(devices: np.ndarray, device: str | None) -> np.ndarray:
    """Selects the held-out images, bool (n,), to compare a device's images with: the device's, or all if too few."""
    same_device = np.asarray(devices == device)
    return same_device if same_device.sum() >= drift.LEAST else np.ones_like(same_device)


def alarm(store: Store, study: str, run_id: str, cases: Scored) -> dict[str, Any] | None:
    """Tests by betting, over all imports in order, whether new normal images still score as the held-out ones do.

    Returns {"cases", "capital", "since", "words", "caveat"}; None if nothing can be compared. since: the day on which
    the capital of the test reached the alarm level, None if it never did. cases: the run's `scored`.

    Images of each device form a separate series, which starts with its share of one capital, so that more devices do
    not make an alarm more likely; "capital" is the largest capital of any series. A device is compared with its own
    held-out normals if there are enough, else with all.

    Only normal cases are compared with held-out normals. Excluding flagged cases removes the highest scores, so
    held-out ones above the run's threshold are excluded as well. If patients are known, only the first image of each
    patient counts on either side, and no image of a training patient, because these look more usual than others.
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
        at = drift.first_alarm(capital, drift.ALARM * len(series))
        if at is not None:
            alarms.append((came[at].day, device))
    since, of = min(alarms, default=(None, ""))
    return {
        "cases": len(new),
        "capital": max(capitals) / len(series),
        "since": since,
        "words": CHANGED.format(of=f"of {of} " if of else "", day=_day(since))
        if since
        else f"{len(new)} new normal cases: like the held-out ones",
        "caveat": UNKNOWN if whose is None else None,
    }


def _device(came: _Came) -> str:
    return came.device or ""


def _day(text: str) -> str:
    """Writes 2026-03-12 as 12 March 2026; any other text stays as it is."""
    try:
        when = date.fromisoformat(text)
    except ValueError:
        return text
    return f"{when.day} {when:%B %Y}"


# Calibration of the score by readers' decisions.


def calibration(store: Store, study: str, cases: Scored) -> dict[str, Any] | None:
    """Estimates the probability that readers decide that a case with a given score is abnormal.

    Returns {"method", "cases", "abnormal", "points", "brier", "apart"}; None with fewer than ENOUGH cases of each kind,
    or two patients per fold. Each case's probability comes from a fit to other patients' cases (isotonic regression
    from MANY cases, else Platt's logistic one). points: per bin, the mean probability, the share decided abnormal, and
    the number of cases.
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
    chance = np.zeros(len(tests))
    for train, held_out in StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0).split(x, sick, groups):
        if isotonic:
            fit = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(x[train, 0], sick[train])
            chance[held_out] = fit.predict(x[held_out, 0])
        else:
            chance[held_out] = LogisticRegression().fit(x[train], sick[train]).predict_proba(x[held_out])[:, 1]
    bins = np.minimum((chance * BINS).astype(int), BINS - 1)
    points = [
        {"chance": float(chance[bins == b].mean()), **wilson(int(sick[bins == b].sum()), int((bins == b).sum()))}
        for b in np.unique(bins)
    ]
    return {
        "method": "isotonic regression" if isotonic else "Platt's logistic regression",
        "cases": len(tests),
        "abnormal": int(sick.sum()),
        "points": points,
        "brier": float(((chance - sick) ** 2).mean()),
        "apart": "patients apart" if patients is not None else "cases separately: patients are not known",
    }


def as_text(measured: dict[str, Any], promise: dict[str, Any]) -> str:
    """Formats the results of `measure` and `believed` as lines for a terminal."""
    promised, changed = promise["promise"], promise["changed"]
    lines = [promised["guarantee"]] if promised else []
    lines += [changed["words"] + "."] if changed else []
    lines += sorted({entry["caveat"] for entry in (promised, changed) if entry and entry["caveat"]})
    lines.append(f"At the threshold {measured['threshold']:.4g}, of planted lesions are flagged:")
    for row in measured["planted"]:
        lines.append(f"  size {row['size']:.2f}, contrast {row['contrast']:.1f}: {row['flagged']} of {row['images']}")
    for group, rows in measured["groups"].items():
        changes = [f"{r['measure']} {r['usual']:.3f} to {r['new']:.3f}" for r in rows if r["matters"]]
        lines.append(f"Images of {_day(group)}: {'; '.join(changes) or 'as before'}")
    return "\n".join(lines)
