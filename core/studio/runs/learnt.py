"""Learns from readers' lesion masks: fits a new detector based on an old one, and compares both on unseen cases."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from core.engine.calibration.percentiles import Calibration
from core.engine.detectors.learnt.config import ENOUGH, LearntConfig, plural
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.studio.db import journal
from core.studio.db.store import Store
from core.studio.ingest.patients import patients_of
from core.studio.ingest.studies import load_arrays
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Report, Stop, Work
from core.studio.runs import marks
from core.studio.runs import records as runs
from core.studio.runs.pipeline import Timed, chain, save_fit
from core.studio.runs.preferred import LEARNT
from core.studio.runs.readings import read_maps, read_scores, size_of
from core.studio.runs.sides import side_for_marks
from core.studio.runs.training import fit_detector

if TYPE_CHECKING:
    from core.engine.detectors.learnt.learnt import Learnt

KEPT = "comparison"
LEAST = 1  # required number of patients (or images, if patients are unknown)
DECIDED = "SELECT count(*) FROM case_votes WHERE study = ? AND readers > 0"
OFFERS = (5, 10, 20, 40)  # numbers of masks at which learning is offered
LESSONS = 60.0  # seconds for training the decoders on two cores
PICTURED = 4  # number of unseen cases that are shown with the results of both runs
NAMES = {"auroc": "image AUROC", "pixel_auroc": "pixel AUROC", "dice": "Dice", "pro": "PRO"}


def offered(store: Store, study: str, reader: str | None = None) -> dict[str, Any]:
    """Counts the annotations of a study from which a detector can learn; returns a dictionary with these keys.

    `masks`: number of annotated cases to learn from. `patients`: number of their patients. `readers`: readers' names.
    `least`: required number of patients. `kinds`: number of masks per kind of lesion, {label: number}.
    `unfinished`: number of these cases for which it is not confirmed that all lesions are annotated.
    `normals`: number of test cases called normal. `decided`: number of cases with any decision.
    `whole`: number of cases that are skipped because the mask covers the image.
    `contradicting`: number of cases that are skipped because readers disagree.
    `notes`: sentences on what is skipped or unknown. `none`: sentence on why there are no masks, or None.
    `next`: number of masks at which learning is offered next, or None. `due`: whether it should be offered now.
    """
    cases = marks.accepted(store, study, reader)
    readers = sorted({row["reader"] for case in cases for row in (case, *case["others"])})
    last = max((runs.marks_count(r) for r in runs.list_runs(store, study, kind="fit")
                if r["method"] == LEARNT and r["status"] != "failed"), default=0)  # fmt: skip
    reached = [step for step in OFFERS if step <= len(cases)]
    counts = {
        "whole": len(marks.whole_image_cases(store, study, reader)),
        "contradicting": len(marks.contradicting(store, study, reader)),
        "unfinished": sum(not all(case["finished"] for case in (row, *row["others"])) for row in cases),
    }
    return {
        **counts,
        "notes": _notes(len(cases), **counts, held=marks.held_back(store, study, reader) if cases else 0),
        "none": None if cases else marks.none_accepted(store, study, reader),
        "masks": len(cases),
        "patients": len(set(marks.units(cases).tolist())),
        "readers": readers,
        "least": LEAST,
        "normals": len(marks.normal_cases(store, study, reader)),
        "kinds": {label: len(masks) for label, masks in marks.kinds(store, cases).items()},
        "next": next((step for step in OFFERS if step > len(cases)), None),
        "due": bool(reached) and last < reached[-1],
        "decided": store.columns(DECIDED, [study])[0][0],
    }


def _notes(masks: int, whole: int, contradicting: int, unfinished: int, held: int) -> list[str]:
    """Returns sentences on what is skipped or unknown."""
    notes = []
    if masks == 1:
        notes.append("With one mask the result cannot be measured, because no mask can be held out.")
    if whole:
        notes.append(f"Skipped: {plural(whole, 'mask')} of a whole image.")
    if contradicting:
        notes.append(
            f"In {plural(contradicting, 'case')}, readers contradict each other. Such cases need adjudication first."
        )
    if held:
        notes.append(f"Masks of {plural(held, 'case')} are held back: {marks.HELD}")
    if unfinished:
        notes.append(
            f"In {plural(unfinished, 'case')}, it is not confirmed that all lesions are annotated: only masks and "
            "normal regions are used."
        )
    return notes


def seconds(store: Store, fit: str) -> float | None:
    """Returns the estimated seconds until learning from masks has a first result; None if run `fit` has no scores."""
    summary = runs.get_run(store, fit)["summary"]
    if "score_seconds" not in summary:
        return None
    per_case = summary["score_seconds"] / max(1, summary["scored"])
    return float(1.5 * summary["score_seconds"] + 0.3 * per_case * summary.get("images", 0) + LESSONS)


def planned(store: Store, fit: str, reader: str | None = None, **settings: Any) -> dict[str, Any]:
    """Returns the arguments of `records.create_run` for a run that learns from readers' masks, based on run `fit`.

    settings: Options of `LearntConfig` that differ from the defaults.

    Raises ValueError if `fit` has not scored the study or has itself learned from masks, or if there are too few masks.
    """
    base = runs.get_run(store, fit)
    if base["kind"] != "fit" or base["status"] != "done" or "calibration" not in base["summary"]:
        raise ValueError(f"{fit} has not scored the study: fit and score a detector first")
    if base["method"] == LEARNT:
        raise ValueError(f"{fit} has already learned from masks: choose {base['config']['base_run']} instead")
    available = offered(store, base["study"], reader)
    if available["patients"] < available["least"]:
        raise ValueError(" ".join([marks.none_accepted(store, base["study"], reader), *available["notes"]]))
    cases = marks.accepted(store, base["study"], reader)
    base_side = size_of(store, base)
    size = side_for_marks(store, base["study"], marks.diameters(cases), base_side)
    config = LearntConfig(base=base["method"], base_run=fit, base_side=base_side).replace(**settings).to_dict()
    config["tune"] *= available["patients"] >= ENOUGH
    config |= {"size": size, "marks": marks.chosen(store, base["study"], reader)}
    name = f"{DETECTORS.title(base['method'])}, {available['masks']} marked"
    return {
        "study": base["study"], "kind": "fit", "method": LEARNT, "config": config, "parent": base["parent"],
        "name": name,
    }  # fmt: skip


def learn(
    store: Store, fit: str, reader: str | None = None, device: str = "auto", start: bool = True, **settings: Any
) -> dict[str, Any]:
    """Queues a run that learns from masks, based on run `fit` (see `planned`); returns {"job", "run"}."""
    return submit(store, planned(store, fit, reader, **settings), device, start)


def submit(store: Store, run: dict[str, Any], device: str = "auto", start: bool = True) -> dict[str, Any]:
    """Queues a run with the arguments that `planned` returned; returns {"job", "run"}.

    The run does not fine-tune the encoder, so that a first result is available soon. The job then fine-tunes the
    encoder, which takes longer, and adds a second run if its result is better.
    """
    rate = run["config"]["tune"]
    first = {**run, "config": {**run["config"], "tune": 0.0}}
    job = jobs.once(store, ["learn", run], lambda: steps(runs.create_run(store, **first), device, rate), start)
    return {"job": job["id"], "run": jobs.runs_of(job, "fit")[0]}


def steps(run: str, device: str, tune: float = 0.0) -> list[dict[str, Any]]:
    """Lists the steps of a job: fit, score, evaluate, compare with the base run, and fine-tune.

    tune: Learning rate of fine-tuning, or 0 for no fine-tuning.
    """
    args: dict[str, Any] = {"device": device}
    fine_tuning = [{"step": "tune", "run": run, "args": {**args, "rate": tune}}] if tune else []
    return [*chain(fits=[run], aids=False, **args), {"step": "compare", "run": run, "args": args}, *fine_tuning]


def tuned(store: Store, run_id: str, rate: float, device: str, should_stop: Stop, report: Report) -> str | None:
    """Fine-tunes the encoder of a run that learned from masks.

    Returns the id of a new run, which is fitted but not yet scored, or None if fine-tuning did not improve the results
    on held-out masks.
    """
    from core.engine.tensors import pick_device

    old, torch_device, start = runs.get_run(store, run_id), pick_device(device), time.monotonic()
    config = {**old["config"], "tune": rate}
    fitted, images = fit_detector(store, {**old, "config": config}, torch_device, should_stop, report, first=run_id)
    if not cast("Learnt", fitted).tuned:
        journal.log(store, run_id, "Fine-tuning the encoder did not improve the result.")
        return None
    new = runs.create_run(store, old["study"], "fit", LEARNT, config, old["parent"], f"{old['name']}, fine-tuned")
    with Timed(store, new, str(torch_device)):
        save_fit(store, new, fitted, images)
    runs.update_run(store, new, seconds=time.monotonic() - start)
    return new


def compare(store: Store, run_id: str) -> dict[str, Any]:
    """Compares a run with its base run on test cases from which the run did not learn, and stores the result.

    Returns {"base", "run", "cases", "left_out": number of skipped test cases, "against": description of the lesion
    masks, "measures" (see core.engine.metrics.compare), "flags": numbers of flagged cases or None, "pictured": example
    cases from the largest gain to the largest loss, "verdict", "words"}. The verdict is "better", "worse", "mixed",
    "same", or "few" (too few cases). A case without an imported label gets the majority of its readers' decisions.
    """
    from core.engine.metrics.compare import Read, Truth, compared

    run = runs.get_run(store, run_id)
    base, truth_of = run["config"]["base_run"], marks.truth_masks(store, run["study"])
    arrays = load_arrays(store, run["study"], size_of(store, run), masks=truth_of.masks)
    test = arrays.index("test")
    unseen = test[marks.unseen(store, run_id, arrays.case_ids[test])]
    labels = _labels(store, run["study"], arrays.label[unseen], arrays.case_ids[unseen])
    every = arrays.case_ids[unseen]
    unseen, labels = unseen[labels >= 0], labels[labels >= 0]
    cases = arrays.case_ids[unseen]
    figures: dict[str, Any] = {"base": base, "run": run_id, "cases": len(unseen), "left_out": len(test) - len(unseen),
                               "against": truth_of.words(cases.tolist())}  # fmt: skip
    if not len(unseen):
        figures |= {"measures": {}, "verdict": "few", "flags": None, "pictured": _highest(store, run_id, every)}
    else:
        truth = Truth(
            labels, np.array(rows_of(arrays.masks, unseen)), arrays.has_mask[unseen],
            np.array(rows_of(arrays.roi, unseen)), patients_of(store, run["study"], cases),
        )  # fmt: skip
        old, new = (
            Read(
                read_scores(store, side, cases, True), read_maps(store, side, cases),
                Calibration.from_dict(runs.get_run(store, side)["summary"]["calibration"]["roi"]),
            )
            for side in (base, run_id)
        )  # fmt: skip
        measures = compared(old, new, truth)
        dice_pairs = sorted(measures["dice"].pop("each", []), key=lambda pair: pair[1] - pair[2])
        spread = np.unique(np.linspace(0, len(dice_pairs) - 1, min(PICTURED, len(dice_pairs))).round().astype(int))
        figures |= {
            "measures": measures, "verdict": _verdict(measures), "flags": _flags(store, base, run_id, cases, labels),
            "pictured": [int(cases[dice_pairs[i][0]]) for i in spread] or _highest(store, run_id, every),
        }  # fmt: skip
    figures["words"] = _words(figures)
    runs.update_run(store, run_id, summary={**runs.get_run(store, run_id)["summary"], KEPT: figures})
    return figures


def _flags(store: Store, base: str, run: str, cases: np.ndarray, labels: np.ndarray) -> dict[str, list[int]]:
    """Counts cases by label: {"abnormal", "normal": [all, flagged by run `base`, flagged by run `run`]}."""
    query = (
        "SELECT count(*) AS n, coalesce(sum(coalesce(o.flagged_roi, o.flagged)), 0) AS old, "
        "coalesce(sum(coalesce(n.flagged_roi, n.flagged)), 0) AS new FROM readings o "
        "JOIN readings n ON n.case_id = o.case_id WHERE o.run = ? AND n.run = ? "
        "AND o.case_id IN (SELECT value FROM json_each(?))"
    )
    return {
        kind: list(store.first(query, [base, run, json.dumps(cases[labels == label].tolist())]).values())
        for kind, label in (("abnormal", 1), ("normal", 0))
    }


def _highest(store: Store, run: str, cases: np.ndarray) -> list[int]:
    """Returns the PICTURED cases with the highest scores, which are shown if the study has no masks."""
    query = (
        "SELECT case_id FROM readings WHERE run = ? AND map IS NOT NULL "
        "AND case_id IN (SELECT value FROM json_each(?)) ORDER BY coalesce(score_roi, score) DESC LIMIT ?"
    )
    return [row["case_id"] for row in store.query(query, [run, json.dumps(cases.tolist()), PICTURED])]


def headline(run: dict) -> str | None:
    """Returns a sentence on how learning changed the results, gains first, or None if this was not measured.

    The sentence refers to unseen cases or, if their labels are unknown, to cross-validation on annotated cases.
    """
    comparison, rule = run["summary"].get(KEPT) or {}, run["summary"].get("rule") or {}
    dice, changes = comparison.get("measures", {}).get("dice") or {}, []
    if comparison.get("flags"):
        (sick, *hits), (well, *alarms) = comparison["flags"]["abnormal"], comparison["flags"]["normal"]
        if sick:
            changes.append((hits[1] - hits[0], f"finds {hits[1]} of {sick} abnormal{_before(*hits)}"))
        if dice.get("new") is not None:
            changes.append((dice["new"] - dice["old"], _overlap(dice["old"], dice["new"])))
        if well:
            changes.append(
                (alarms[0] - alarms[1], f"raises {alarms[1]} false alarms on {well} normal{_before(*alarms)}")
            )
        if changes:
            gains = [text for gain, text in changes if gain > 0]
            sentence = "; ".join([*gains, *(text for _, text in changes if text not in gains)])
            return f"On {plural(comparison['cases'], 'unseen case')} it {sentence}."
    if rule.get("dice") is not None:
        on = f"In cross-validation on {plural(rule['images'], 'annotated case')}"
        return f"{on} it {_overlap(rule['base_dice'], rule['dice'])}."
    return None


def _overlap(old: float, new: float) -> str:
    before, after = f"{old:.2f}", f"{new:.2f}"
    return f"outlines lesions with a Dice of {after}{_before(before, after)}"


def _before(old: Any, new: Any) -> str:
    return ", as before" if old == new else f" instead of {old}"


def _labels(store: Store, study: str, labels: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Returns labels, int (N,): 1 abnormal, 0 normal, -1 unknown. Unlabelled cases get the majority of decisions."""
    votes = {
        row["case_id"]: int(np.sign(row["abnormal"] - row["normal"]))
        for row in store.query(
            f"SELECT case_id, abnormal, normal FROM case_votes WHERE study = ? AND case_id NOT IN ({marks.IN_TRIALS})",
            [study],
        )
    }
    decided = np.array([{1: 1, -1: 0}.get(votes.get(int(case), 0), -1) for case in cases], int)
    return np.where(labels == "abnormal", 1, np.where(labels == "normal", 0, decided))


def _verdict(measures: dict[str, dict[str, Any]]) -> str:
    intervals = [m["interval"] for m in measures.values() if m["enough"] and m["interval"] is not None]
    if not intervals:
        return "few"
    up, down = any(low > 0 for low, _ in intervals), any(high < 0 for _, high in intervals)
    return "mixed" if up and down else "better" if up else "worse" if down else "same"


def _words(figures: dict[str, Any]) -> str:
    on = f"on {figures['cases']} unseen cases ({figures['against']})"
    clear = {
        name: m["interval"][0] > 0
        for name, m in figures["measures"].items()
        if m["enough"] and m["interval"] is not None and (m["interval"][0] > 0 or m["interval"][1] < 0)
    }
    listed = {up: " and ".join(NAMES[name] for name, better in clear.items() if better == up) for up in (True, False)}
    return {
        "few": f"Too few unseen cases to tell: {figures['cases']} with a known label or decision.",
        "same": f"No clear difference {on}.",
        "better": f"Better {on} in {listed[True]}, clearly worse in no measure.",
        "worse": f"Worse {on} in {listed[False]}: keep the old detector.",
        "mixed": f"Better {on} in {listed[True]}, worse in {listed[False]}.",
    }[figures["verdict"]]


def tune_step(work: Work) -> None:
    """Fine-tunes the encoder; if this improved results, adds steps that score, evaluate and compare the new run."""
    new = tuned(work.store, work.run, work.args["rate"], work.device, work.should_stop, work.report)
    if new and work.job is not None:
        jobs.extend(work.store, work.job, steps(new, work.device)[1:])


def compare_step(work: Work) -> None:
    work.report({"message": "Comparing with the old detector on unseen cases"})
    compare(work.store, work.run)
