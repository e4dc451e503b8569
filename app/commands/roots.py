"""roots: the folders of this machine that administrators may import from on the page, where people sign in."""

from __future__ import annotations

from app.commands._common import BY, finish, open_store, say, verb


def add(subparsers) -> None:
    help = "Folders that administrators may import from on the page, where people sign in"
    parser = subparsers.add_parser("roots", help=help, description=help)
    inner = parser.add_subparsers(dest="what", metavar="add|remove|list", required=True)
    for name, about, work in (("add", "Name a folder", run_add), ("remove", "Take a folder from the list", run_remove)):
        verb(inner, name, about, work).add_argument("folder")
    verb(inner, "list", "List the folders", run_list)


def run_add(args) -> int:
    from core.studio.ingest import roots

    folder = roots.name(open_store(args), args.folder, BY)
    return finish(args, {"folder": folder}, f"Administrators may import from {folder}")


def run_remove(args) -> int:
    from core.studio.ingest import roots

    roots.forget(open_store(args), args.folder, BY)
    return finish(args, {"removed": args.folder}, "Nobody imports from there by the page any more")


def run_list(args) -> int:
    from core.studio.ingest import roots

    found = roots.named(open_store(args))
    for folder in found:
        say(args, folder)
    return finish(args, {"roots": found}, None if found else "None is named; `roots add FOLDER` names one")
