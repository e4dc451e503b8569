"""evaluate RUN|STUDY: rows of metrics, the mean-colour baseline beside them."""

from __future__ import annotations

import csv
import io
import time
from typing import Any

from app.commands._common import UserError, finish, open_store, progress, say, table, verb

COLUMNS = ["encoder", "detector", "roi", "protocol", "auroc", "ap", "sensitivity", "specificity", "pixel_auroc"]
COLUMNS += ["dice", "iou", "pro", "seconds"]


def add(subparsers) -> None:
    parser = verb(subparsers, "evaluate", "Metrics of scored runs: of one, or of all of a study", run)
    parser.add_argument("what", metavar="RUN|STUDY")
    parser.add_argument("--roi", choices=("yes", "no", "both"), default="both", help="inside the region of interest")
    parser.add_argument("--protocol", choices=("held-out", "paper", "both"), default="held-out")
    parser.add_argument("--pixel-rule", choices=("held-out", "best-dice"), default="held-out")
    parser.add_argument("--format", choices=("text", "csv"), default="text")
    parser.add_argument("--bootstrap", type=int, default=1000, help="draws for the intervals")


def run(args) -> int:
    from core.studio.ingest.studies import show_study
    from core.studio.runs import records as runs
    from core.studio.runs import results

    started = time.monotonic()
    store = open_store(args)
    if runs.exists(store, args.what):
        study, fits = runs.get_run(store, args.what)["study"], [args.what]
    else:
        study = show_study(store, args.what)["id"]
        fits = results.scored_fits(store, study)
        if not fits:
            raise UserError(f"no run of {study} has been scored; `fit RUN --score` does both")
    rois = {"yes": [True], "no": [False], "both": [True, False]}[args.roi]
    protocols = ["held-out", "paper"] if args.protocol == "both" else [args.protocol]
    settings = {"pixel_rule": args.pixel_rule, "bootstrap": args.bootstrap}
    rows = []
    with progress(args, "Evaluating") as show:
        for i, (run_id, protocol, roi) in enumerate((r, p, o) for r in fits for p in protocols for o in rois):
            show(i, len(fits) * len(protocols) * len(rois), run_id)
            rows.append(results.evaluate_run(store, run_id, roi, protocol, **settings))
    size = results.size_of(store, runs.get_run(store, fits[0]))
    for protocol in protocols:
        rows += [results.baseline_row(store, study, size, roi, protocol, bootstrap=args.bootstrap) for roi in rois]
    say(args, as_csv(rows) if args.format == "csv" else table(rows, COLUMNS))
    if args.format == "text":
        say(args, f"Thresholds: {', '.join(protocols)}; pixels: {args.pixel_rule}")
    return finish(args, {"study": study, "seconds": round(time.monotonic() - started, 2), "rows": rows})


def as_csv(rows: list[dict]) -> str:
    """Every plain value of the rows; an interval takes two columns."""
    flat = []
    for row in rows:
        line: dict[str, Any] = {}
        for name, value in row.items():
            if isinstance(value, (list, tuple)) and len(value) == 2:
                line |= {f"{name}_low": value[0], f"{name}_high": value[1]}
            elif not isinstance(value, (dict, list, tuple)):
                line[name] = value
        flat.append(line)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for line in flat for name in line)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue().rstrip("\n")
