"""Say how good runs are: evaluate, sheet, report, experiment, choose."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.commands._common import BY, UserError, finish, open_store, options_of, progress, say, study_named, table, verb

COLUMNS = ["encoder", "detector", "roi", "protocol", "auroc", "ap", "sensitivity", "specificity", "pixel_auroc"]
COLUMNS += ["dice", "iou", "pro", "pro_all", "seconds"]


def add(subparsers) -> None:
    _add_evaluate(subparsers)
    _add_sheet(subparsers)
    _add_report(subparsers)
    _add_experiment(subparsers)
    _add_choose(subparsers)
    _add_believe(subparsers)


def _add_believe(subparsers) -> None:
    words = "Plant lesions into held-out normals and compare new images with them: what a run's threshold misses"
    verb(subparsers, "believe", words, run_believe).add_argument("run_id", metavar="RUN")


def run_believe(args) -> int:
    from core.studio.review import believe
    from core.studio.runs.records import get_run

    store = open_store(args)
    measured = believe.measure(store, args.run_id, args.device)
    promise = believe.believed(store, get_run(store, args.run_id)["study"], args.run_id)
    return finish(
        args, {"run": args.run_id, **measured, "promise": promise["promise"]}, believe.as_text(measured, promise)
    )


def _add_evaluate(subparsers) -> None:
    parser = verb(subparsers, "evaluate", "Metrics of scored runs: of one, or of all of a study", run_evaluate)
    parser.add_argument("what", metavar="RUN|STUDY")
    parser.add_argument("--roi", choices=("yes", "no", "both"), default="both", help="inside the region of interest")
    parser.add_argument("--protocol", choices=("held-out", "paper", "both"), default="held-out")
    parser.add_argument("--pixel-rule", choices=("held-out", "best-dice"), default="held-out")
    parser.add_argument("--format", choices=("text", "csv"), default="text")
    parser.add_argument("--bootstrap", type=int, default=1000, help="draws for the intervals")


def run_evaluate(args) -> int:
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
    """Writes every plain value of the rows as CSV; an interval takes two columns."""
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


def _add_sheet(subparsers) -> None:
    parser = verb(subparsers, "sheet", "Best and worst cases of a scored run by Dice, as one picture", run_sheet)
    parser.add_argument("run_id", metavar="RUN")
    parser.add_argument(
        "--out", metavar="FILE", help="PNG, JPEG, SVG or PDF (default: sheets/RUN.png in the home folder)"
    )
    parser.add_argument("--best", type=int, default=12)
    parser.add_argument("--worst", type=int, default=12)


def run_sheet(args) -> int:
    from core.studio.runs import records as runs
    from core.studio.runs.sheet import draw_sheet

    store = open_store(args)
    if "threshold" not in runs.get_run(store, args.run_id)["summary"]:
        raise UserError(f"{args.run_id} has not been scored; `score {args.run_id}` does it")
    out = Path(args.out) if args.out else store.home.path / "sheets" / f"{args.run_id}.png"
    payload = draw_sheet(store, args.run_id, out, args.best, args.worst)
    return finish(args, payload, f"Written: {payload['out']}")


def _add_report(subparsers) -> None:
    parser = verb(subparsers, "report", "The paper's tables on a study, beside the published numbers", run_report)
    parser.add_argument("--study", required=True)
    parser.add_argument(
        "--tables", help="detection,localisation,ssl,ablation,augment,classes,centres,temperature (default: all)"
    )
    parser.add_argument("--rows", help="only rows with these labels: DAE,PANDA,PMSACL - PaDiM")
    parser.add_argument("--seeds", type=int, default=5, help="the paper runs five")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", default="quick", help="quick (short trainings) or paper (its own settings)")
    parser.add_argument(
        "--network",
        help="of all rows: narrow (0.4 million weights, from random; quick's own), lite0 (EfficientNet-lite0 from "
        "ImageNet's weights), resnet18 (from random; paper's own)",
    )  # fmt: skip
    parser.add_argument("--weights", metavar="FILE", help="that network from this file, or imagenet: torchvision's")
    parser.add_argument("--size", type=int, help="side of the images (default: 64 for quick, 256 for paper)")
    parser.add_argument("--protocol", default="paper", choices=("paper", "held-out"), help="where thresholds come from")
    parser.add_argument("--dataset", help="whose published numbers: hyperkvasir, lag, liu, covidx (default: by name)")
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument("--background", action="store_true", help="queue it and return at once")
    parser.add_argument("--out", metavar="DIR", help="default: reports/STUDY in the home folder")


def run_report(args) -> int:
    from core.studio.report import asked
    from core.studio.report.report import make_asked

    store = open_store(args)
    settings = asked.settings(
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
        job = asked.submit(store, settings)
        return finish(args, {"job": job, "status": "queued"}, f"Queued as job {job}; it will write {settings['out']}")
    payload = make_asked(store, settings, report=lambda v: say(args, v["message"]))
    return finish(args, payload, f"Written to {payload['out']}: {', '.join(asked.FILES.values())}")


def _add_experiment(subparsers) -> None:
    parser = verb(
        subparsers, "experiment", "Arms of an experiment over seeds: means and spreads in one table", run_experiment
    )
    parser.add_argument("name", help="comparison, ablation, look, ...; a wrong name lists all")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--data", metavar="DIR", help="folder of a study; imported under its own name unless it is there"
    )
    parser.add_argument("--patients", metavar="PATTERN", help="of the folder's file names, as `study import` takes it")
    source.add_argument("--study", help="a study that is there already")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=64, help="side of the images in pixels")
    parser.add_argument("--arms", help="only these, by number from 0: 0,3")
    parser.add_argument("--set-pretrain", action="append", default=[], metavar="KEY=VALUE", help="for every encoder")
    parser.add_argument("--set-fit", action="append", default=[], metavar="KEY=VALUE", help="for every lesion head")
    parser.add_argument(
        "--fit-preset",
        help="for every detector that has it: paper; fundus, xray, ultrasound, ... (default: each arm's)",
    )
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument(
        "--out", metavar="FILE", help="also write the rows and the table here, as JSON; of `marks` as each row comes"
    )
    parser.add_argument("--go-on", action="store_true", help="of `marks`: rows that FILE has are not run again")


def study_of(store, args) -> str:
    """Returns the id of the study: the one named, or the folder's, imported unless it is there already."""
    from core.studio.ingest.studies import import_study, list_studies, slug

    if args.study:
        return study_named(args, store, args.study)
    folder = Path(args.data).expanduser().resolve()
    if not folder.is_dir():
        raise UserError(f"{args.data} is not a folder")
    study = slug(folder.name)
    if study in {s["id"] for s in list_studies(store)}:
        return study
    return import_study(store, folder.name, folder, patients=args.patients, by=BY).study


def _has_preset(detector: str, preset: str) -> bool:
    from core.engine.registry import DETECTORS

    return preset in DETECTORS.get(detector).presets


def _rows_of(args, study: str) -> list[dict]:
    """The rows of the file that --out names, none where it is not there."""
    if not args.out:
        raise UserError("--go-on goes on with the file that --out names")
    if not Path(args.out).exists():
        return []
    there = json.loads(Path(args.out).read_text())
    if there["study"] != study:
        raise UserError(f"{args.out} holds rows of {there['study']}, not of {study}")
    return there["rows"]


def run_experiment(args) -> int:
    from core.engine.backbones.embed import remembering
    from core.studio.experiments import taught
    from core.studio.experiments.contour import run_contour
    from core.studio.experiments.marks import run_marks
    from core.studio.experiments.plans import CLAIMS, EXPERIMENTS, JUDGED
    from core.studio.experiments.report import markdown, summarise
    from core.studio.experiments.runner import run_plan
    from core.studio.report.claims import claims_markdown, claims_of_rows

    if args.name not in EXPERIMENTS:
        raise UserError(f"no experiment is called {args.name!r}; there are: {', '.join(EXPERIMENTS)}")
    started, store = time.monotonic(), open_store(args)
    arms = EXPERIMENTS[args.name]()
    if args.arms:
        arms = [arms[int(i)] for i in args.arms.split(",")]
    pretrain, fit = options_of(args.set_pretrain), options_of(args.set_fit)
    arms = [
        a.replace(pretrain={**a.pretrain, **pretrain}, fit={**a.fit, **(fit if a.detector == "lesion-head" else {})})
        for a in arms
    ]
    if args.fit_preset:
        arms = [a.replace(fit_preset=args.fit_preset) if _has_preset(a.detector, args.fit_preset) else a for a in arms]
    study = study_of(store, args)
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    settings = {"study": study, "experiment": args.name, "size": args.size, "seeds": seeds}
    pairs = CLAIMS.get(args.name, [])

    def answered(rows: list[dict]) -> tuple[dict, list]:
        """(what is answered, and written where that is asked for; tests of the claims) of the rows so far."""
        claims = claims_of_rows(store, arms, pairs, rows) if pairs else []
        payload = settings | {"claims": [asdict(c) for c in claims], "seconds": round(time.monotonic() - started, 1)}
        payload |= {"rows": rows, "summary": summarise(rows)}
        if args.out:
            had = [{name: value for name, value in row.items() if value is not None} for row in rows]
            Path(args.out).write_text(json.dumps({**payload, "rows": had}, indent=1, default=str) + "\n")
        return payload, claims

    rows: list[dict] = []
    if args.name == "marks":
        rows = _rows_of(args, study) if args.go_on else []
        done = {(row["label"], row["seed"]) for row in rows}
        with remembering():  # arms are tested on the same images
            for row in run_marks(
                store, study, arms, seeds, device=args.device, report=lambda line: say(args, line), done=done
            ):
                rows.append(row)
                answered(rows)  # a row takes minutes
    elif args.name == "contour":
        rows = run_contour(store, study, arms, seeds, device=args.device, report=lambda line: say(args, line))
    else:
        rows = run_plan(
            store, study, arms, seeds, size=args.size, device=args.device, bootstrap=args.bootstrap,
            judged=args.name in JUDGED, report=lambda line: say(args, line),
        )  # fmt: skip
    payload, claims = answered(rows)
    lines = payload["summary"]
    tested = "\n\n" + claims_markdown(claims) if claims else ""
    if args.name == "marks":
        tested = "\n\n" + taught.words(rows)
    return finish(args, payload, "\n" + markdown(lines) + tested)


def _add_choose(subparsers) -> None:
    parser = verb(
        subparsers, "choose", "Choose an experiment's arm for each set by the figures of the others", run_choose
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="what `experiment NAME --out FILE` wrote; several of a set are joined"
    )
    parser.add_argument("--among", default="", metavar="TEXT", help="only arms whose label holds this")
    parser.add_argument("--whole", action="store_true", help="figures of whole images, not of the region of interest")


def _summary_of(file: str, whole: bool) -> tuple[str, list[dict]]:
    try:
        held = json.loads(Path(file).read_text())
        return held["study"], [line for line in held["summary"] if line["roi"] is not whole]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not what `experiment --out` writes") from error


def run_choose(args) -> int:
    from core.studio.experiments.choice import leave_one_out, markdown

    sets: dict[str, list[dict]] = {}
    for study, lines in (_summary_of(file, args.whole) for file in args.files):
        new = {line["label"] for line in lines}
        sets[study] = [line for line in sets.get(study, []) if line["label"] not in new] + lines
    arms = [label for label in _labels(sets) if args.among in label]
    if not arms:
        raise UserError(f"no arm is called like {args.among!r}; there are: {', '.join(_labels(sets))}")
    try:
        choices = leave_one_out(sets, arms)
    except ValueError as error:
        raise UserError(str(error)) from error
    return finish(args, {"choices": [asdict(c) for c in choices]}, markdown(choices))


def _labels(sets: dict[str, list[dict]]) -> list[str]:
    return list(dict.fromkeys(line["label"] for lines in sets.values() for line in lines))
