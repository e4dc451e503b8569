"""Export models, import them, and screen images with them: export, import, screen."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import UserError, finish, open_store, study_named, verb


def add(subparsers) -> None:
    _add_export(subparsers)
    _add_import(subparsers)
    _add_screen(subparsers)


def _add_export(subparsers) -> None:
    parser = verb(subparsers, "export", "Write a fitted detector as a folder that runs without the studio", run_export)
    parser.add_argument("run_id", metavar="RUN", help="a finished fit")
    parser.add_argument("--out", metavar="DIR", help="a new folder (default: exports/RUN in the home folder)")


def run_export(args) -> int:
    from core.studio.runs.exported import export_run

    store = open_store(args)
    out = Path(args.out).expanduser() if args.out else store.home.path / "exports" / args.run_id
    card = export_run(store, args.run_id, out.absolute(), "cpu" if args.device == "auto" else args.device)
    graph = card["graph"]
    if graph["file"]:
        difference = f"its scores differ from the detector's by at most {graph['difference']:.1g}"
        text = f"{graph['bytes'] / 1e6:.1f} MB of graph, {difference}"
    else:
        text = f"without a graph: {graph['why']}"
    payload = {"run": args.run_id, "out": str(out.absolute()), "graph": graph, "size": card["size"]}
    return finish(args, payload, f"Written to {out} ({text}). Next: python {out}/screen.py IMAGES --out SCORES")


def _add_import(subparsers) -> None:
    parser = verb(subparsers, "import", "Take a folder that `export` wrote into this home, as a run", run_import)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--study", required=True)
    parser.add_argument("--name", help="a name for people")


def run_import(args) -> int:
    from core.studio.runs.exported import import_model

    store = open_store(args)
    imported = import_model(store, Path(args.folder).expanduser(), study_named(args, store, args.study), args.name)
    return finish(args, imported, f"Imported as {imported['fit']}. Next: score {imported['fit']}")


def _add_screen(subparsers) -> None:
    parser = verb(subparsers, "screen", "Score a folder of images with an exported model, without a study", run_screen)
    parser.add_argument("model", metavar="MODEL", help="a folder that `export` wrote")
    parser.add_argument("source", metavar="IMAGES", help="an image, a folder, or a Parquet list of paths (--parquet)")
    parser.add_argument("--out", metavar="DIR", required=True)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--no-maps", action="store_true", help="leave out the heat maps")
    parser.add_argument("--watch", type=float, default=0, metavar="SECONDS", help="look again every so often")
    parser.add_argument("--parquet", action="store_true", help="scores and maps as Parquet, for `score --from`")
    parser.add_argument("--ray", metavar="ADDRESS", help="on a Ray cluster, as Parquet: auto, ray://HOST:PORT, local")


def run_screen(args) -> int:
    from core.studio.runs import screen, screened

    model, source, out = (Path(value).expanduser() for value in (args.model, args.source, args.out))
    if args.processes < 1 or args.watch < 0:
        raise UserError("--processes is 1 or more, and --watch 0 or more")
    if args.ray:
        counts = screened.screen_on_ray(model, source, out, args.ray, args.processes)
    elif args.parquet:
        counts = screened.screen_here(model, source, out)
    else:
        counts = screen.screen_folder(
            model, source, out, processes=args.processes, maps=not args.no_maps, watch=args.watch
        )
    summary = f"{counts['images']} images scored, {counts['failed']} of them could not be read; written to {out}"
    return finish(args, {**counts, "out": str(out)}, summary)
