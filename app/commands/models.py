"""Verbs that export models, import them, and screen images with them: export, import, screen."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import UserError, arg, finish, open_store, study_named, verb


@verb(
    "export",
    arg("run_id", metavar="RUN", help="a finished fit"),
    arg("--out", metavar="DIR", help="a new folder (default: exports/RUN in the home folder)"),
)
def run_export(args) -> int:
    """Export a fitted detector to a folder that runs without the studio."""
    from core.studio.runs.exported import export_run

    store = open_store(args)
    out = Path(args.out).expanduser() if args.out else store.home.path / "exports" / args.run_id
    card = export_run(store, args.run_id, out.absolute(), "cpu" if args.device == "auto" else args.device)
    graph = card["graph"]
    if graph["file"]:
        difference = f"its scores differ from the detector's by at most {graph['difference']:.1g}"
        text = f"with a graph of {graph['bytes'] / 1e6:.1f} MB; {difference}"
    else:
        text = f"without a graph: {graph['why']}"
    payload = {"run": args.run_id, "out": str(out.absolute()), "graph": graph, "size": card["size"]}
    return finish(args, payload, f"Written to {out} ({text}). Next: python {out}/screen.py IMAGES --out SCORES")


@verb("import", arg("folder", metavar="FOLDER"), arg("--study", required=True), arg("--name", help="name of the run"))
def run_import(args) -> int:
    """Import an exported model into this home, as a new run."""
    from core.studio.runs.exported import import_model

    store = open_store(args)
    imported = import_model(store, Path(args.folder).expanduser(), study_named(args, store, args.study), args.name)
    return finish(args, imported, f"Imported as {imported['fit']}. Next: score {imported['fit']}")


@verb(
    "screen",
    arg("model", metavar="MODEL", help="a folder that `export` wrote"),
    arg("source", metavar="IMAGES", help="an image, a folder, or a Parquet list of paths (--parquet)"),
    arg("--out", metavar="DIR", required=True),
    arg("--processes", type=int, default=1),
    arg("--no-maps", action="store_true", help="write no heat maps"),
    arg("--watch", type=float, default=0, metavar="SECONDS", help="look for new images every SECONDS seconds"),
    arg("--parquet", action="store_true", help="write scores and maps as Parquet, for `score --from`"),
    arg("--ray", metavar="ADDRESS", help="run on a Ray cluster and write Parquet: auto, ray://HOST:PORT, local"),
)
def run_screen(args) -> int:
    """Score a folder of images with an exported model, without a study."""
    from core.studio.runs import screen, screened

    model, source, out = (Path(value).expanduser() for value in (args.model, args.source, args.out))
    if args.processes < 1 or args.watch < 0:
        raise UserError("--processes must be at least 1, and --watch at least 0")
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
