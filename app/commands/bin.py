"""bin: runs and studies that were removed; they can be brought back for a week."""

from __future__ import annotations

from app.commands._common import BY, finish, open_store, table, verb


def add(subparsers) -> None:
    help = "Runs and studies that were removed: list them, bring one back, delete them for good"
    parser = subparsers.add_parser("bin", help=help, description=help)
    inner = parser.add_subparsers(dest="what", metavar="list|restore|empty", required=True)
    verb(inner, "list", "What is in the bin", run_list)
    one = verb(inner, "restore", "Bring a run with its fits, or a study, back", run_restore)
    one.add_argument("kind", choices=("run", "study"))
    one.add_argument("id")
    verb(inner, "empty", "Delete for good all that is in the bin", run_empty)


def run_list(args) -> int:
    from core.studio.runs import bin

    rows = bin.contents(open_store(args))
    text = table(rows, ["kind", "id", "name", "study", "until"]) if rows else "The bin is empty"
    return finish(args, {"bin": rows}, text)


def run_restore(args) -> int:
    from core.studio.runs import bin

    bin.restore(open_store(args), args.kind, args.id, BY)
    return finish(args, {"restored": args.id}, f"{args.kind} {args.id} is back")


def run_empty(args) -> int:
    from core.studio.runs import bin

    count = bin.empty(open_store(args), days=0)
    return finish(args, {"deleted": count}, f"{count} deleted for good")
