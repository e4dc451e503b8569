"""study import | list | show."""

from __future__ import annotations

from app.verbs._common import finish, open_store, progress, say, verb


def add(subparsers) -> None:
    parser = subparsers.add_parser("study", help="import a folder of images as a study; list and show studies")
    inner = parser.add_subparsers(dest="what", metavar="import|list|show", required=True)
    one = verb(inner, "import", "Make a study of a folder, or of a CSV of path, split, label, mask", run_import)
    one.add_argument("name")
    one.add_argument("folder")
    one.add_argument("--copy", action="store_true", help="copy the images into the home instead of referring to them")
    one.add_argument("--layout", help="table, plain, mvtec or flat; found by looking at the folder")
    one.add_argument("--size", type=int, help="also prepare the arrays of this size, in pixels")
    verb(inner, "list", "List the studies", run_list)
    one = verb(inner, "show", "What a study holds", run_show)
    one.add_argument("name")


def run_import(args) -> int:
    from core.studio.studies import import_study

    with progress(args, f"Importing {args.name}") as show:
        report = import_study(
            open_store(args), args.name, args.folder, args.copy, args.size, lambda i, n: show(i, n, ""), args.layout
        )
    counts = ", ".join(f"{n} {part}" for part, n in report.counts.items())
    say(args, f"{report.study} ({report.layout}): {report.accepted} images ({counts}), {report.masks} lesion masks")
    for one in report.rejected:
        say(args, f"  left out {one['path']}: {one['reason']}")
    for one in report.duplicates:
        say(args, f"  {one['kind']} duplicate: {one['train']} (train) and {one['test']} (test)")
    return finish(args, report.to_dict())


def run_list(args) -> int:
    from core.studio.studies import list_studies

    rows = list_studies(open_store(args))
    for row in rows:
        say(args, f"{row['id']}  {row['cases']} images, {row['masks']} masks  {row['folder']}")
    return finish(args, {"studies": rows}, None if rows else "No studies yet; `study import NAME FOLDER` makes one")


def run_show(args) -> int:
    from core.studio.runs import list_runs
    from core.studio.studies import show_study

    store = open_store(args)
    study = show_study(store, args.name)
    runs = list_runs(store, study["id"])
    say(args, f"{study['name']} ({study['id']})\n  from {study['folder']}, layout {study['layout']}")
    for part, n in study["counts"].items():
        say(args, f"  {n:6} {part}")
    say(args, f"  {study['masks']:6} with lesion masks")
    for run in runs:
        say(args, f"  run {run['id']}  {run['kind']}  {run['status']}  {run['name']}")
    listed = [{k: run[k] for k in ("id", "kind", "method", "name", "status", "parent", "created")} for run in runs]
    return finish(args, {**study, "runs": listed})
