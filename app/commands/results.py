"""Verbs that evaluate runs and report the results: evaluate, sheet, report, believe."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any

from app.commands._common import UserError, arg, finish, open_store, progress, say, study_named, table, verb

COLUMNS = [
    "encoder",
    "detector",
    "roi",
    "protocol",
    "cases",
    "auroc",
    "ap",
    "sensitivity",
    "specificity",
    "pixel_auroc",
]
COLUMNS += ["dice", "iou", "pro", "pro_all", "seconds"]
MASKS = arg(
    "--masks",
    choices=("reference", "readers"),
    default="",
    help="ground truth of lesions: reference masks (the default if there are any), or the masks that readers drew on "
    "cases they called abnormal",
)


@verb("believe", arg("run_id", metavar="RUN"))
def run_believe(args) -> int:
    """Measure how many synthetic lesions a run misses, and whether new images differ from held-out ones."""
    from core.studio.review import believe
    from core.studio.runs.records import get_run

    store = open_store(args)
    measured = believe.measure(store, args.run_id, args.device)
    promise = believe.reliability(store, get_run(store, args.run_id)["study"], args.run_id)
    return finish(
        args, {"run": args.run_id, **measured, "promise": promise["promise"]}, believe.as_text(measured, promise)
    )


@verb(
    "evaluate",
    arg("what", metavar="RUN|STUDY"),
    arg("--roi", choices=("yes", "no", "both"), default="both", help="inside the region of interest"),
    arg("--protocol", choices=("held-out", "paper", "both"), default="held-out"),
    arg("--pixel-rule", choices=("held-out", "best-dice"), default="held-out"),
    MASKS,
    arg("--format", choices=("text", "csv"), default="text"),
    arg("--bootstrap", type=int, default=1000, help="number of bootstrap samples for the intervals"),
)
def run_evaluate(args) -> int:
    """Compute the metrics of a scored run, or of all scored runs of a study."""
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
            raise UserError(f"no run of {study} has been scored; `fit RUN --score` fits and scores one")
    rois = {"yes": [True], "no": [False], "both": [True, False]}[args.roi]
    protocols = ["held-out", "paper"] if args.protocol == "both" else [args.protocol]
    settings = {"masks": args.masks, "pixel_rule": args.pixel_rule, "bootstrap": args.bootstrap}
    rows = []
    with progress(args, "Evaluating") as show:
        for i, (run_id, protocol, roi) in enumerate((r, p, o) for r in fits for p in protocols for o in rois):
            show(i, len(fits) * len(protocols) * len(rois), run_id)
            rows.append(results.evaluate_run(store, run_id, roi, protocol, **settings))
    size = results.size_of(store, runs.get_run(store, fits[0]))
    for protocol in protocols:
        rows += [
            results.baseline_row(store, study, size, roi, protocol, args.masks, bootstrap=args.bootstrap)
            for roi in rois
        ]
    say(args, as_csv(rows) if args.format == "csv" else table(rows, COLUMNS))
    if args.format == "text":
        say(args, f"Thresholds: {', '.join(protocols)}; pixels: {args.pixel_rule}; masks: {rows[0]['masks']}")
        if len({row["set"] for row in rows}) > 1:
            say(args, "These rows are from different cases (see the column cases): do not rank them.")
    return finish(args, {"study": study, "seconds": round(time.monotonic() - started, 2), "rows": rows})


def as_csv(rows: list[dict]) -> str:
    """Returns the rows as CSV text. An interval becomes the columns NAME_low and NAME_high; other lists are skipped."""
    from core.studio.review.exports.tables import cell

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
    writer.writerows({name: cell(value) for name, value in line.items()} for line in flat)
    return out.getvalue().rstrip("\n")


@verb(
    "sheet",
    arg("run_id", metavar="RUN"),
    arg("--out", metavar="FILE", help="PNG, JPEG, SVG or PDF (default: sheets/RUN.png in the home folder)"),
    MASKS,
    arg("--best", type=int, default=12),
    arg("--worst", type=int, default=12),
)
def run_sheet(args) -> int:
    """Draw one picture of a scored run's best and worst cases by Dice."""
    from core.studio.runs import records as runs
    from core.studio.runs.sheet import draw_sheet

    store = open_store(args)
    if "threshold" not in runs.get_run(store, args.run_id)["summary"]:
        raise UserError(f"{args.run_id} has not been scored; score it with `score {args.run_id}`")
    out = Path(args.out) if args.out else store.home.path / "sheets" / f"{args.run_id}.png"
    payload = draw_sheet(store, args.run_id, out, args.best, args.worst, masks=args.masks)
    return finish(args, payload, f"Written: {payload['out']}, {payload['against']}")


@verb(
    "report",
    arg("--study", required=True),
    arg("--tables", help="detection,localisation,ssl,ablation,augment,classes,centres,temperature (default: all)"),
    arg("--rows", help="only rows with these labels, such as DAE,PANDA,PMSACL - PaDiM"),
    arg("--seeds", type=int, default=5, help="number of seeds (the paper uses five)"),
    arg("--first-seed", type=int, default=0),
    arg("--budget", default="quick", help="quick (short training) or paper (settings of the paper)"),
    arg(
        "--network",
        help="backbone of all rows: narrow (0.4 million random weights; default of quick), lite0 (EfficientNet-lite0 "
        "with ImageNet weights), resnet18 (with ImageNet weights; default of paper)",
    ),
    arg("--weights", metavar="FILE", help="initial weights of the network: a file, or imagenet (from torchvision)"),
    arg("--size", type=int, help="image side length in pixels (default: 64 for quick, 256 for paper)"),
    arg("--protocol", default="paper", choices=("paper", "held-out"), help="source of the thresholds"),
    arg("--dataset", help="dataset of the published numbers: hyperkvasir, lag, liu, covidx (default: by name)"),
    arg("--bootstrap", type=int, default=1000),
    arg("--background", action="store_true", help="queue the job and return at once"),
    arg("--out", metavar="DIR", help="default: reports/STUDY in the home folder"),
)
def run_report(args) -> int:
    """Reproduce the paper's tables on a study, next to the published numbers."""
    from core.studio.report import board
    from core.studio.report.board import missing
    from core.studio.report.report import make_report

    store = open_store(args)
    settings = board.settings(
        store,
        study_named(args, store, args.study),
        tables=args.tables.split(",") if args.tables else None,
        rows=[label.strip() for label in args.rows.split(",")] if args.rows else None,
        seeds=args.seeds,
        first_seed=args.first_seed,
        budget=args.budget,
        network=args.network,
        weights=args.weights,
        size=args.size,
        protocol=args.protocol,
        dataset=args.dataset,
        device=args.device,
        bootstrap=args.bootstrap,
        out=str(Path(args.out).absolute()) if args.out else None,
    )
    if args.background:
        job = board.submit(store, settings)
        return finish(args, {"job": job, "status": "queued"}, f"Queued as job {job}; it will write {settings['out']}")
    to_do = missing(store, settings["study"], settings)
    if to_do["cells"]:
        say(args, f"{to_do['cells']} cells to make: about {to_do['seconds'] / 60:.0f} minutes")
    payload = make_report(store, settings, report=lambda v: say(args, v["message"]))
    return finish(args, payload, f"Written to {payload['out']}: {', '.join(board.FILES.values())}")
