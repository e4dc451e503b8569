"""Verbs that fit detectors and score cases with them: fit, score, learn, look."""

from __future__ import annotations

import argparse
import contextlib
import time
from pathlib import Path

from app.commands._common import (
    UserError,
    arg,
    finish,
    follow,
    open_to_compute,
    options_of,
    say,
    study_named,
    table,
    verb,
)
from app.commands.results import COLUMNS

COMPARED = ["measure", "old", "new", "difference", "from", "to", "images"]


@verb(
    "fit",
    arg("run_id", metavar="RUN", help="a pre-training run"),
    arg("--detector", default="blend-head", help="blend-head, blend, nearest, padim, ..."),
    arg("--preset", help="quick, paper; lesion head: fundus, xray, ..."),
    arg("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting of the detector"),
    arg("--seed", type=int),
    arg("--score", action="store_true", help="also score and evaluate, in the same job"),
    arg("--name", help="name of the run"),
    arg("--background", action="store_true", help="queue the job and return at once"),
)
def run_fit(args) -> int:
    """Fit a detector on the encoder of a pre-training run."""
    from core.engine.registry import DETECTORS
    from core.studio.jobs import queue as jobs
    from core.studio.runs import records as runs
    from core.studio.runs.pipeline import chain, create_fit

    store = open_to_compute(args)
    parent = runs.get_run(store, args.run_id)
    if parent["kind"] != "pretrain":
        raise UserError(f"{args.run_id} is not an encoder; its encoder is {parent['parent']}")
    changes = options_of(args.set) | ({} if args.seed is None else {"seed": args.seed})
    config = DETECTORS.get(args.detector).preset(args.preset).replace(**changes)
    run_id = create_fit(store, parent["id"], args.detector, config, args.name)
    steps = chain(fits=[run_id], score=args.score, device=args.device)
    job = jobs.submit(store, steps, start=args.background)
    if args.background:
        return finish(args, {"run": run_id, "job": job, "status": "queued"}, f"{run_id}: queued as job {job}")
    follow(args, store, job, f"Fitting {args.detector}")
    row = runs.get_run(store, run_id)
    say(args, f"{run_id}: {row['status']} in {row['seconds']:.1f} s")
    payload = {"run": run_id, "job": job, "status": row["status"], "seconds": row["seconds"]}
    payload |= {"study": row["study"], "folder": str(runs.run_folder(store, run_id))}
    return finish(args, payload, f"Next: {'evaluate' if args.score else 'score'} {run_id}")


@verb(
    "score",
    arg("run_id", metavar="RUN", help="a fit"),
    arg(
        "--steady",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="also score mirrored and enlarged copies of each image, to measure how stable its score is (four more "
        "passes; default: for up to 1000 cases)",
    ),
    arg("--background", action="store_true", help="queue the job and return at once"),
    arg("--from", dest="source", metavar="DIR", help="import the Parquet files of `screen` instead of scoring images"),
)
def run_score(args) -> int:
    """Score a study's held-out and test cases with a fitted detector."""
    from core.studio.jobs import queue as jobs
    from core.studio.runs.results import flagged_counts
    from core.studio.runs.screened import import_readings

    store = open_to_compute(args)
    _fit_of(store, args)
    if args.source:
        counts = import_readings(store, args.run_id, Path(args.source).expanduser())
        text = f"{counts['taken']} readings imported; {counts['unknown']} files are not test cases of the study"
        return finish(args, {"run": args.run_id, **counts}, text)
    steps = [{"step": "score", "run": args.run_id, "args": {"device": args.device, "steady": args.steady}}]
    job = jobs.submit(store, steps, start=args.background)
    if args.background:
        return finish(args, {"run": args.run_id, "job": job, "status": "queued"}, f"queued as job {job}")
    follow(args, store, job, "Scoring")
    row = _fit_of(store, args)
    summary = row["summary"]
    counts = flagged_counts(store, args.run_id)
    payload = {"run": args.run_id, "study": row["study"], "scored": summary["scored"], **counts}
    payload |= {"seconds": summary["score_seconds"]} | {k: summary[k] for k in ("threshold", "threshold_roi")}
    text = f"{summary['scored']} cases scored in {summary['score_seconds']:.1f} s; of {counts['test']} test cases "
    return finish(args, payload, text + f"{counts['flagged_roi']} are flagged. Next: evaluate {args.run_id}")


def _fit_of(store, args) -> dict:
    from core.studio.runs import records as runs

    row = runs.get_run(store, args.run_id)
    if row["kind"] != "fit" or row["status"] != "done":
        raise UserError(f"{args.run_id} is not a finished fit (it is a {row['kind']}, {row['status']})")
    return row


@verb(
    "learn",
    arg("run_id", metavar="RUN", help="a scored fit"),
    arg("--reader", metavar="NAME", help="use only this reader's masks"),
    arg("--background", action="store_true", help="queue the job and return at once"),
)
def run_learn(args) -> int:
    """Learn from accepted lesion masks, starting from a scored fit."""
    from core.studio.jobs import queue as jobs
    from core.studio.runs import learnt
    from core.studio.runs import records as runs

    store = open_to_compute(args)
    learning = learnt.learn(store, args.run_id, args.reader, args.device, start=args.background)
    if args.background:
        return finish(args, {**learning, "status": "queued"}, f"{learning['run']}: queued as job {learning['job']}")
    follow(args, store, learning["job"], "Learning from marks")
    learning["run"] = jobs.runs_of(jobs.get_job(store, learning["job"]), "score")[-1]  # the fine-tuned fit, if better
    run = runs.get_run(store, learning["run"])
    comparison = run["summary"]["comparison"]
    rows = []
    for name, m in comparison["measures"].items():
        low, high = m["interval"] or (None, None)
        values = {k: m[k] for k in ("old", "new", "difference", "images")}
        rows.append({"measure": learnt.NAMES[name], **values, "from": low, "to": high})
    if rows:
        say(args, table(rows, COMPARED))
    return finish(
        args,
        {**learning, **comparison},
        f"{learnt.headline(run) or ''} {comparison['words']} Both runs are kept: {comparison['base']}, {run['id']}.",
    )


@verb(
    "look",
    arg("study", metavar="STUDY"),
    arg("--detector", default="blend", help="blend, padim, nearest, mahalanobis, ..."),
    arg("--backbone", default=None, help="backbone (default: EfficientNet-lite0)"),
    arg("--init", default="imagenet", help="weights: imagenet, a name in `weights list`, or a file"),
    arg("--size", type=int, default=None, help="image side length (default: 224, or more for few and large images)"),
)
def run_look(args) -> int:
    """Score a study with pretrained features, before any training."""
    from core.studio.ingest.studies import load_arrays
    from core.studio.jobs import queue as jobs
    from core.studio.runs import look, results
    from core.studio.runs import records as runs
    from core.studio.training import first_weights

    started = time.monotonic()
    store = open_to_compute(args)
    study = study_named(args, store, args.study)
    first = {"arch": look.ARCH, **first_weights.chosen(store, args.init, args.backbone)}
    look_runs = look.create_look(store, study, size=args.size, detector=args.detector, **first)
    steps = look.look_steps(store, look_runs, evaluate=False, device=args.device)
    job = jobs.submit(store, steps, start=False)
    size = results.size_of(store, runs.get_run(store, look_runs["fit"]))

    def prepare(show) -> None:
        with contextlib.suppress(ValueError, OSError):  # the job reports the same error
            load_arrays(store, study, size, lambda done, count: show(done, count, "Preparing images"))

    # Images are prepared here, because the worker needs seconds to load torch.
    follow(args, store, job, "Looking", until="embed", work=prepare)
    looked, rows = round(time.monotonic() - started, 1), []
    if results.has_known_test(store, study):
        rows = results.evaluate_both(store, look_runs["fit"])  # while the worker draws the map
        say(args, table(rows, COLUMNS))
    follow(args, store, job, "Mapping")
    payload = {"study": study, "seconds": looked, "rows": rows, "runs": look_runs}
    payload["seconds_evaluated"] = round(time.monotonic() - started, 1)
    return finish(args, payload, f"Looked in {looked:.0f} s; `python launch.py` shows the results in Review")
