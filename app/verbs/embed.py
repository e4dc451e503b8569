"""embed --run RUN: a map of an encoder's feature space, as a figure or a table."""

from __future__ import annotations

from pathlib import Path

from app.verbs._common import UserError, finish, follow, open_store, options_of, table, verb

NUMBERS = ("silhouette", "davies_bouldin", "knn_purity", "knn_chance", "between_within")


def add(subparsers) -> None:
    parser = verb(subparsers, "embed", "Map an encoder's features: t-SNE, UMAP or PCA, as a figure or a table", run)
    parser.add_argument("--run", dest="run_id", required=True, metavar="RUN", help="a pre-training (or a fit on one)")
    parser.add_argument("--method", default="tsne", choices=("tsne", "umap", "pca"))
    parser.add_argument(
        "--features", default="centred", choices=("centred", "projected", "backbone", "patch"), help="what is mapped"
    )
    parser.add_argument("--epochs", default="last", help="last, ends (first and last), all, or numbers as 0,4,12")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--points", type=int, metavar="N", help="at most N images of each class")
    parser.add_argument("--colour", default="class", help="a column of the study: class, split, label, tag, ...")
    parser.add_argument("--only", action="append", metavar="CLASS", help="draw this class (may be given several times)")
    parser.add_argument("--out", action="append", default=[], metavar="FILE", help=".svg .pdf .png .csv .parquet")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as perplexity=50")


def run(args) -> int:
    from core.engine.device import pick_device
    from core.studio.clusters import figure, library
    from core.studio.clusters import table as tables
    from core.studio.clusters.features import chosen, encoder_run

    pick_device(args.device)
    files = [Path(f) for f in args.out]
    for file in files:
        if file.suffix[1:] not in figure.FORMATS + tables.FORMATS:
            raise UserError(f"--out takes {', '.join(figure.FORMATS + tables.FORMATS)} files, not {file.name!r}")
        if not file.absolute().parent.is_dir():
            raise UserError(f"there is no folder {file.absolute().parent}")
    store = open_store(args)
    config = _config(args, store)
    chosen(store, encoder_run(store, args.run_id), config)
    asked = library.request(store, args.run_id, config, args.device)
    if not asked["ready"]:
        follow(args, store, asked["job"], "Mapping")
    m = library.open_map(store, asked["key"])
    for file in files:
        file.write_bytes(_file(store, m, file.suffix[1:], args))
    rows = [_row(epoch) for epoch in m.about["epochs"]]
    payload = {
        "run": m.about["run"],
        "study": m.about["study"],
        "map": m.key,
        "method": config.method,
        "features": config.feature,
        "points": len(m.points),
        "seconds": m.about["seconds"],
        "rows": rows,
        "files": [str(f) for f in files],
    }
    saved = "".join(f"\nsaved {f}" for f in files)
    return finish(args, payload, table(rows, ["epoch", *NUMBERS, "trustworthiness"]) + saved)


def _config(args, store):
    from core.studio.clusters.config import MapConfig
    from core.studio.clusters.features import encoder_run, snapshots

    have = [s.epoch for s in snapshots(store, encoder_run(store, args.run_id))]
    ends = [have[0], have[-1]] if len(have) > 1 else have
    named = {"last": have[-1:], "all": have, "ends": ends}
    try:
        epochs = named[args.epochs] if args.epochs in named else [int(e) for e in args.epochs.split(",")]
    except ValueError:
        raise UserError(f"--epochs takes last, ends, all or numbers as 0,4,12, not {args.epochs!r}") from None
    changes = {"method": args.method, "feature": args.features, "epochs": epochs, "seed": args.seed}
    if args.points is not None:
        for part in ("train", "holdout", "mixed", "test_normal", "abnormal"):
            changes[f"points.{part}"] = args.points
    return MapConfig().replace(**changes, **options_of(args.set))


def _file(store, m, format: str, args) -> bytes:
    from core.studio.clusters import columns, figure, table

    fit = next((f["id"] for f in columns.fits(store, m)), None)
    if format in table.FORMATS:
        return table.write(store, m, format, fit)
    found = {c["name"]: c for c in columns.columns(store, m, fit)}
    column = found.get(args.colour)
    if column is None or "codes" not in column:
        named = ", ".join(n for n, c in found.items() if "codes" in c)
        raise UserError(f"--colour takes one of {named}, not {args.colour!r}")
    return figure.draw(m, format, column=None if args.colour == "class" else column, groups=args.only)


def _row(epoch: dict) -> dict:
    """One epoch's numbers of the classes A_0 .. A_k, and of normal against abnormal under `lesions`."""
    numbers = epoch["numbers"].get("classes", {})
    row = {"epoch": epoch["epoch"], **{k: numbers.get(k) for k in NUMBERS}, "trustworthiness": epoch["trustworthiness"]}
    lesions = epoch["numbers"].get("lesions", {})
    return row | {"lesions": {k: lesions.get(k) for k in NUMBERS}, "warnings": numbers.get("warnings", [])}
