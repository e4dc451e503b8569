"""experiment NAME --data DIR: the arms of an experiment over seeds, as the README's tables were made."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from app.commands._common import UserError, finish, open_store, options_of, say, study_named, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "experiment", "Arms of an experiment over seeds: means and spreads in one table", run)
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
    parser.add_argument("--out", metavar="FILE", help="also write the rows and the table here, as JSON")


def study_of(store, args) -> str:
    """Id of the study: the one named, or the folder's, imported unless it is there already."""
    from core.studio.ingest.studies import import_study, list_studies, slug

    if args.study:
        return study_named(args, store, args.study)
    folder = Path(args.data).expanduser().resolve()
    if not folder.is_dir():
        raise UserError(f"{args.data} is not a folder")
    study = slug(folder.name)
    if study in {s["id"] for s in list_studies(store)}:
        return study
    return import_study(store, folder.name, folder, patients=args.patients).study


def _has(detector: str, preset: str) -> bool:
    from core.engine.registry import DETECTORS

    return preset in getattr(DETECTORS.get(detector), "presets", {})


def run(args) -> int:
    from core.studio.experiments.contour import run_contour
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
        arms = [a.replace(fit_preset=args.fit_preset) if _has(a.detector, args.fit_preset) else a for a in arms]
    study = study_of(store, args)
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    if args.name == "contour":
        rows = run_contour(store, study, arms, seeds, device=args.device, report=lambda line: say(args, line))
    else:
        rows = run_plan(
            store, study, arms, seeds, size=args.size, device=args.device, bootstrap=args.bootstrap,
            judged=args.name in JUDGED, report=lambda line: say(args, line),
        )  # fmt: skip
    lines = summarise(rows)
    payload = {"study": study, "experiment": args.name, "size": args.size, "seeds": seeds}
    pairs = CLAIMS.get(args.name, [])
    claims = claims_of_rows(store, arms, pairs, rows) if pairs else []
    payload |= {"claims": [asdict(c) for c in claims]}
    payload |= {"seconds": round(time.monotonic() - started, 1), "rows": rows, "summary": lines}
    if args.out:
        had = [{name: value for name, value in row.items() if value is not None} for row in rows]
        Path(args.out).write_text(json.dumps({**payload, "rows": had}, indent=1, default=str) + "\n")
    tested = "\n\n" + claims_markdown(claims) if claims else ""
    return finish(args, payload, "\n" + markdown(lines) + tested)
