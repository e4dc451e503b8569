"""score RUN: readings of every held-out and test case."""

from __future__ import annotations

import argparse

from app.commands._as_one import as_one
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
    from core.engine import processes
    from core.engine.tensors import pick_device
    from core.studio.jobs import queue as jobs

    def submit(store) -> tuple[str, int]:
        steps = [{"step": "score", "run": args.run_id, "args": {"device": args.device, "steady": args.steady}}]
        return _fit_of(store, args)["id"], jobs.submit(store, steps, start=args.background)

    if processes.wanted() > 1:
        if args.background:
            raise UserError("torchrun is for scores in the foreground: leave out --background")
        done = as_one(args, submit, "Scoring with")
        return 0 if done is None else _finish(args, done[0])
    pick_device(args.device)
    store = open_store(args)
    _, job = submit(store)
    if args.background:
        return finish(args, {"run": args.run_id, "job": job, "status": "queued"}, f"queued as job {job}")
    follow(args, store, job, "Scoring")
    return _finish(args, store)


def _fit_of(store, args) -> dict:
    from core.studio.runs import records as runs

    row = runs.get_run(store, args.run_id)
    if row["kind"] != "fit" or row["status"] != "done":
        raise UserError(f"{args.run_id} is not a finished fit (it is a {row['kind']}, {row['status']})")
    return row


def _finish(args, store) -> int:
    from core.studio.runs.results import flagged_counts

    row = _fit_of(store, args)
    summary = row["summary"]
    found = flagged_counts(store, args.run_id)
    payload = {"run": args.run_id, "study": row["study"], "scored": summary["scored"], **found}
    payload |= {"seconds": summary["score_seconds"]} | {k: summary[k] for k in ("threshold", "threshold_roi")}
    text = f"{summary['scored']} cases scored in {summary['score_seconds']:.1f} s; of {found['test']} test cases "
    return finish(args, payload, text + f"{found['flagged_roi']} are flagged. Next: evaluate {args.run_id}")
