"""score RUN: readings of every held-out and test case."""

from __future__ import annotations

import argparse

from app.commands._common import UserError, finish, follow, open_store, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "score", "Score a study's held-out and test cases with a fitted detector", run)
    parser.add_argument("run_id", metavar="RUN", help="a fit")
    parser.add_argument(
        "--steady",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="also score each image mirrored and enlarged, to say how steady its score is (four more passes; "
        "default: up to 1000 cases)",
    )
    parser.add_argument("--background", action="store_true", help="queue it and return at once")


def run(args) -> int:
    from core.engine.tensors import pick_device
    from core.studio.jobs import queue as jobs
    from core.studio.runs import records as runs
    from core.studio.runs.results import flagged_counts

    pick_device(args.device)
    store = open_store(args)
    row = runs.get_run(store, args.run_id)
    if row["kind"] != "fit" or row["status"] != "done":
        raise UserError(f"{args.run_id} is not a finished fit (it is a {row['kind']}, {row['status']})")
    steps = [{"step": "score", "run": args.run_id, "args": {"device": args.device, "steady": args.steady}}]
    job = jobs.submit(store, steps, start=args.background)
    if args.background:
        return finish(args, {"run": args.run_id, "job": job, "status": "queued"}, f"queued as job {job}")
    follow(args, store, job, "Scoring")
    summary = runs.get_run(store, args.run_id)["summary"]
    found = flagged_counts(store, args.run_id)
    payload = {"run": args.run_id, "study": row["study"], "scored": summary["scored"], **found}
    payload |= {"seconds": summary["score_seconds"]} | {k: summary[k] for k in ("threshold", "threshold_roi")}
    text = f"{summary['scored']} cases scored in {summary['score_seconds']:.1f} s; of {found['test']} test cases "
    return finish(args, payload, text + f"{found['flagged_roi']} are flagged. Next: evaluate {args.run_id}")
