"""weights: the files that a training asked for on the page may begin with, beside the names that are always there."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import BY, finish, open_store, say, verb


def add(subparsers) -> None:
    help = "Files of weights that trainings asked for on the page may begin with"
    parser = subparsers.add_parser("weights", help=help, description=help)
    inner = parser.add_subparsers(dest="what", metavar="add|remove|list", required=True)
    verb(inner, "add", "Copy a weights file into the home and onto the list", run_add).add_argument("file", type=Path)
    verb(inner, "remove", "Take a file from the list", run_remove).add_argument("name")
    verb(inner, "list", "List what a training may begin with", run_list)


def run_add(args) -> int:
    from core.studio.training import first_weights

    name = first_weights.add(open_store(args), args.file.expanduser(), BY)
    return finish(args, {"weights": name}, f"A training may begin with {name}")


def run_remove(args) -> int:
    from core.studio.training import first_weights

    first_weights.remove(open_store(args), args.name, BY)
    return finish(args, {"removed": args.name}, f"{args.name} is on the list no more")


def run_list(args) -> int:
    from core.studio.training import first_weights

    found = first_weights.listed(open_store(args))
    for name in found:
        say(args, name)
    return finish(args, {"weights": found})
