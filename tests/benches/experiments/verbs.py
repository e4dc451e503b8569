"""The verbs `experiment` and `choose`, which `launch.py` has in a clone of the source."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from app.commands._common import (
    BY,
    UserError,
    arg,
    finish,
    one_of,
    open_store,
    options_of,
    say,
    study_named,
    verb,
)


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


@verb(
    "experiment",
    arg("name", help="comparison, ablation, look, ...; a wrong name lists all"),
    one_of(
        arg("--data", metavar="DIR", help="folder of a study; imported under its own name unless it is there"),
        arg("--study", help="a study that is there already"),
        required=True,
    ),
    arg("--patients", metavar="PATTERN", help="of the folder's file names, as `study import` takes it"),
    arg("--seeds", type=int, default=3),
    arg("--first-seed", type=int, default=0),
    arg("--size", type=int, default=64, help="side of the images in pixels"),
    arg("--arms", help="only these, by number from 0: 0,3"),
    arg("--set-pretrain", action="append", default=[], metavar="KEY=VALUE", help="for every encoder"),
    arg("--set-fit", action="append", default=[], metavar="KEY=VALUE", help="for every lesion head"),
    arg(
        "--fit-preset",
        help="for every detector that has it: paper; fundus, xray, ultrasound, ... (default: each arm's)",
    ),
    arg("--bootstrap", type=int, default=1000),
    arg("--inside", action="store_true", help="no rows without the region of interest"),
    arg("--out", metavar="FILE", help="also write the rows and the table here, as JSON; of `marks` as each row comes"),
    arg("--go-on", action="store_true", help="of `marks`: rows that FILE has are not run again"),
)
def run_experiment(args) -> int:
    """Arms of an experiment over seeds: means and spreads in one table."""
    from core.engine.backbones.embed import remembering
    from tests.benches.experiments import taught
    from tests.benches.experiments.claims import claims_markdown, claims_of_rows
    from tests.benches.experiments.contour import run_contour
    from tests.benches.experiments.marks import run_marks
    from tests.benches.experiments.plans import CLAIMS, EXPERIMENTS, JUDGED
    from tests.benches.experiments.report import markdown, summarise
    from tests.benches.experiments.runner import run_plan

    if args.name not in EXPERIMENTS:
        raise UserError(f"no experiment is called {args.name!r}; choose from: {', '.join(EXPERIMENTS)}")
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
            judged=args.name in JUDGED, inside=args.inside, report=lambda line: say(args, line),
        )  # fmt: skip
    payload, claims = answered(rows)
    lines = payload["summary"]
    tested = "\n\n" + claims_markdown(claims) if claims else ""
    if args.name == "marks":
        tested = "\n\n" + taught.words(rows)
    return finish(args, payload, "\n" + markdown(lines) + tested)


def _summary_of(file: str, whole: bool) -> tuple[str, list[dict]]:
    try:
        held = json.loads(Path(file).read_text())
        return held["study"], [line for line in held["summary"] if line["roi"] is not whole]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not what `experiment --out` writes") from error


@verb(
    "choose",
    arg(
        "files", nargs="+", metavar="FILE", help="what `experiment NAME --out FILE` wrote; several of a set are joined"
    ),
    arg("--among", default="", metavar="TEXT", help="only arms whose label holds this"),
    arg("--whole", action="store_true", help="figures of whole images, not of the region of interest"),
)
def run_choose(args) -> int:
    """Choose an experiment's arm for each set by the figures of the others."""
    from tests.benches.experiments.choice import leave_one_out, markdown

    sets: dict[str, list[dict]] = {}
    for study, lines in (_summary_of(file, args.whole) for file in args.files):
        new = {line["label"] for line in lines}
        sets[study] = [line for line in sets.get(study, []) if line["label"] not in new] + lines
    arms = [label for label in _labels(sets) if args.among in label]
    if not arms:
        raise UserError(f"no arm is called like {args.among!r}; choose from: {', '.join(_labels(sets))}")
    try:
        choices = leave_one_out(sets, arms)
    except ValueError as error:
        raise UserError(str(error)) from error
    return finish(args, {"choices": [asdict(c) for c in choices]}, markdown(choices))


def _labels(sets: dict[str, list[dict]]) -> list[str]:
    return list(dict.fromkeys(line["label"] for lines in sets.values() for line in lines))
