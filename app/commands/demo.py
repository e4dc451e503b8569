"""demo: the whole way on a study drawn by our own code: draw, pretrain, fit, score, evaluate."""

from __future__ import annotations

import time

from app.commands._common import finish, follow, open_store, progress, say, table, verb
from app.commands.evaluate import COLUMNS


def add(subparsers) -> None:
    parser = verb(subparsers, "demo", "Draw a study, train on it, fit the detectors, score and evaluate", run)
    parser.add_argument("--seed", type=int, default=0, help="of the study and of the training")
    parser.add_argument("--epochs", type=int, help="instead of the quick preset's")
    parser.add_argument("--show", action="store_true", help="a guided tour of the page instead: five minutes, live")


def run(args) -> int:
    if args.show:
        from app.commands.app import open_page

        return open_page(args, tour=True)
    from core.engine.tensors import pick_device
    from core.studio.demo import study as demo
    from core.studio.jobs import queue as jobs
    from core.studio.runs import records as runs

    pick_device(args.device)
    started = time.monotonic()
    store = open_store(args)
    with progress(args, "Drawing the demo study") as show:
        study = demo.make_demo(store, args.seed, on_progress=lambda i, n: show(i, n, ""))
    drawn = time.monotonic() - started
    changes = {"epochs": args.epochs} if args.epochs else {}
    made = demo.create_demo_runs(store, study, args.seed, **changes)
    say(args, f"Study {study} drawn in {drawn:.0f} s; training and detectors follow")
    job = jobs.submit(store, demo.demo_steps(made, device=args.device), start=False)
    follow(args, store, job, "Training, fitting, scoring")
    size = runs.get_run(store, made["pretrain"])["config"]["size"]
    with progress(args, "Evaluating"):
        rows = demo.demo_rows(store, study, made, size)
    seconds = round(time.monotonic() - started, 1)
    say(args, table(rows, COLUMNS))
    status = runs.get_run(store, made["pretrain"])
    payload = {"study": study, "seconds": seconds, "rows": rows, "runs": made, "training": status["status"]}
    return finish(args, payload, f"{seconds:.0f} s in all; `python launch.py` shows it")
