"""Verb that maps an encoder's feature space in two dimensions: embed."""

from __future__ import annotations

from pathlib import Path

from app.commands._common import UserError, arg, finish, follow, one_of, open_to_compute, options_of, table, verb

NUMBERS = ("silhouette", "davies_bouldin", "knn_purity", "knn_chance", "between_within")


@verb(
    "embed",
    arg("--run", dest="run_id", required=True, metavar="RUN", help="a pre-training run, or a fit on its encoder"),
    arg("--method", default="tsne", choices=("tsne", "umap", "pca")),
    arg("--features", default="centred", choices=("centred", "projected", "backbone"), help="features to map"),
    arg("--epochs", default="last", help="last, ends (first and last), all, or numbers such as 0,4,12"),
    arg("--seed", type=int, default=0),
    arg("--points", type=int, metavar="N", help="maximum number of images of each class"),
    arg(
        "--colour",
        default="pseudo",
        help="pseudo (only normal images and pseudo classes), or a column: class (all classes), split, ...",
    ),
    arg("--only", action="append", metavar="CLASS", help="draw this class (may be given several times)"),
    arg("--out", action="append", default=[], metavar="FILE", help=".svg .pdf .png .csv .parquet"),
    one_of(
        arg("--place", metavar="FOLDER", help="project the images of a folder onto the map, which does not change"),
        arg("--study", metavar="STUDY", help="project the cases of a study that are not on the map yet"),
    ),
    arg("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, such as perplexity=50"),
)
def run(args) -> int:
    """Map an encoder's features in two dimensions with t-SNE, UMAP or PCA."""
    from core.studio.clusters import explore, figure, library
    from core.studio.clusters.points import chosen
    from core.studio.runs.weights import encoder_run

    files = [Path(f) for f in args.out]
    for file in files:
        if file.suffix[1:] not in figure.FORMATS + explore.TABLE_FORMATS:
            raise UserError(f"--out takes {', '.join(figure.FORMATS + explore.TABLE_FORMATS)} files, not {file.name!r}")
        if not file.absolute().parent.is_dir():
            raise UserError(f"the folder {file.absolute().parent} does not exist")
    store = open_to_compute(args)
    config = _config(args, store)
    chosen(store, encoder_run(store, args.run_id), config)
    request = library.request(store, args.run_id, config, args.device)
    if not request["ready"]:
        follow(args, store, request["job"], "Mapping")
    m = library.open_map(store, request["key"])
    new_images = _project(store, m, args)
    for file in files:
        file.write_bytes(_file(store, m, file.suffix[1:], args, new_images))
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
    notes = "".join(f"\nepoch {row['epoch']}: {text}" for row in rows for text in row["warnings"])
    for new in new_images:
        payload["placed"] = _projected(m, new)
        far = payload["placed"]["far"]
        notes += f"\nplaced {len(new)} images of {new.about['title']}, {far} of them far from all images on the map"
        notes += "".join(f"\nskipped {name}: {why}" for name, why in new.about["left_out"])
    saved = "".join(f"\nsaved {f}" for f in files)
    return finish(args, payload, table(rows, ["epoch", *NUMBERS, "trustworthiness"]) + notes + saved)


def _project(store, m, args) -> list:
    """Projects new images onto the map and returns them in a list, which is empty if none are requested."""
    from core.studio.clusters import projected

    if args.place is None and args.study is None:
        return []
    config = projected.ProjectionConfig(folder=args.place or "", study=args.study or "")
    request = projected.request(store, m.key, config, args.device)
    if not request["ready"]:
        follow(args, store, request["job"], "Projecting")
    return [projected.open_projected(store, m.key, request["key"])]


def _projected(m, new) -> dict:
    """Returns the position of each projected image at the last epoch, and its nearest neighbour in feature space."""
    images = []
    for j, name in enumerate(new.about["names"]):
        nearest = int(new.near[-1, j, 0])
        images.append(
            {
                "name": name,
                "x": round(float(new.coords[-1, j, 0]), 5),
                "y": round(float(new.coords[-1, j, 1]), 5),
                "far": bool(new.out_of_support[-1, j]),
                "nearest": m.about["groups"][int(m.points.group[nearest])],
                "distance": round(float(new.distance[-1, j, 0]), 5),
            }
        )
    return {
        "title": new.about["title"],
        "far": sum(i["far"] for i in images),
        "images": images,
        "left_out": new.about["left_out"],
    }


def _config(args, store):
    from core.studio.clusters.config import MapConfig
    from core.studio.runs.weights import encoder_run, snapshots

    have = [s.epoch for s in snapshots(store, encoder_run(store, args.run_id))]
    ends = [have[0], have[-1]] if len(have) > 1 else have
    named = {"last": have[-1:], "all": have, "ends": ends}
    try:
        epochs = named[args.epochs] if args.epochs in named else [int(e) for e in args.epochs.split(",")]
    except ValueError:
        raise UserError(f"--epochs takes last, ends, all or numbers such as 0,4,12, not {args.epochs!r}") from None
    changes = {"method": args.method, "feature": args.features, "epochs": epochs, "seed": args.seed}
    if args.points is not None:
        for group in ("train", "holdout", "mixed", "test_normal", "abnormal"):
            changes[f"points.{group}"] = args.points
    return MapConfig().replace(**changes, **options_of(args.set))


def _file(store, m, format: str, args, projected: list) -> bytes:
    from core.studio.clusters import explore, figure
    from core.studio.review.exports.tables import Names

    fit = next((f["id"] for f in explore.fits(store, m)), None)
    if format in explore.TABLE_FORMATS:
        return explore.write(store, m, format, Names(store, m.about["study"], keep=True), fit, projected)
    columns = {c["name"]: c for c in explore.columns(store, m, fit)}
    column = columns.get(args.colour)
    if column is None or "codes" not in column:
        named = ", ".join(n for n, c in columns.items() if "codes" in c)
        raise UserError(f"--colour takes one of {named}, not {args.colour!r}")
    colouring = None if args.colour == "class" or args.only else column
    return figure.draw(
        m, format, column=colouring, groups=args.only, objective=figure.objective(store, m), projected=projected
    )


def _row(epoch: dict) -> dict:
    """Returns the metrics of the classes A_0 to A_k at an epoch and, under `lesions`, of normal and abnormal cases."""
    numbers = epoch["numbers"].get("classes", {})
    row = {"epoch": epoch["epoch"], **{k: numbers.get(k) for k in NUMBERS}, "trustworthiness": epoch["trustworthiness"]}
    lesions = epoch["numbers"].get("lesions", {})
    return row | {"lesions": {k: lesions.get(k) for k in NUMBERS}, "warnings": numbers.get("warnings", [])}
