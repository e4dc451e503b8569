"""look STUDY: heat maps before any training, from pretrained features, in about a minute."""

from __future__ import annotations

import time

from app.commands._common import finish, follow, open_store, say, study_named, table, verb
from app.commands.evaluate import COLUMNS


def add(subparsers) -> None:
    parser = verb(subparsers, "look", "Score a study with pretrained features, before any training", run)
    parser.add_argument("study", metavar="STUDY")
    parser.add_argument("--detector", default="blend", help="blend, padim, nearest or mahalanobis")
    parser.add_argument("--backbone", default=None, help="instead of EfficientNet-lite0")
    parser.add_argument(
        "--size", type=int, default=None, help="side of the images (default: 224; more where few and larger ones are)"
    )


def run(args) -> int:
    from core.engine.tensors import pick_device
    from core.studio.jobs import queue as jobs
    from core.studio.runs import look, results
    from core.studio.runs import records as runs

    pick_device(args.device)
    started = time.monotonic()
    store = open_store(args)
    study = study_named(args, store, args.study)
    made = look.create_look(store, study, args.backbone or look.ARCH, args.size, args.detector)
    steps = look.look_steps(store, made, evaluate=False, device=args.device)
    follow(args, store, jobs.submit(store, steps, start=False), "Looking")
    looked = round(time.monotonic() - started, 1)
    rows = []
    if results.has_known_test(store, study):
        size = results.size_of(store, runs.get_run(store, made["fit"]))
        for roi in (True, False):
            rows.append(results.evaluate_run(store, made["fit"], roi, "held-out"))
            rows.append(results.baseline_row(store, study, size, roi, "held-out"))
        say(args, table(rows, COLUMNS))
    payload = {"study": study, "seconds": looked, "rows": rows, "runs": made}
    payload["seconds_evaluated"] = round(time.monotonic() - started, 1)
    return finish(args, payload, f"{looked:.0f} s to look; `python launch.py` shows it in Review")
