"""choose FILE ...: which arm of an experiment the other sets choose for each set, none seeing its own images."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from app.commands._common import UserError, finish, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "choose", "Choose an experiment's arm for each set by the figures of the others", run)
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="what `experiment NAME --out FILE` wrote; several of a set are joined"
    )
    parser.add_argument("--among", default="", metavar="TEXT", help="only arms whose label holds this")
    parser.add_argument("--whole", action="store_true", help="figures of whole images, not of the region of interest")


def _lines(file: str, whole: bool) -> tuple[str, list[dict]]:
    try:
        held = json.loads(Path(file).read_text())
        return held["study"], [line for line in held["summary"] if line["roi"] is not whole]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not what `experiment --out` writes") from error


def run(args) -> int:
    from core.studio.experiments.choice import leave_one_out, markdown

    sets: dict[str, list[dict]] = {}
    for study, lines in (_lines(file, args.whole) for file in args.files):
        new = {line["label"] for line in lines}
        sets[study] = [line for line in sets.get(study, []) if line["label"] not in new] + lines
    arms = [label for label in _all(sets) if args.among in label]
    if not arms:
        raise UserError(f"no arm is called like {args.among!r}; there are: {', '.join(_all(sets))}")
    try:
        choices = leave_one_out(sets, arms)
    except ValueError as error:
        raise UserError(str(error)) from error
    return finish(args, {"choices": [asdict(c) for c in choices]}, markdown(choices))


def _all(sets: dict[str, list[dict]]) -> list[str]:
    return list(dict.fromkeys(line["label"] for lines in sets.values() for line in lines))
