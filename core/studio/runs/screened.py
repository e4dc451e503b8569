"""Runs an exported model on many images: in this process, or on many machines through Ray.

Ray distributes batches to workers that each have loaded the model, and repeats a batch if its worker is lost. Both
ways write the Parquet that `exported.take_in` reads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from core.engine import files
from core.studio.db.foreign import Refused
from core.studio.runs import screen
from core.studio.runs.exported import detector_digest

COLUMNS = {
    "file": "string", "frame": "int64", "sha256": "string", "error": "string", "score": "float64",
    "score_roi": "float64", "threshold": "float64", "threshold_roi": "float64", "percentile": "float64",
    "percentile_roi": "float64", "flagged": "int64", "flagged_roi": "int64", "peak": "float64", "map": "binary",
    "map_h": "int64", "map_w": "int64", "map_lo": "float64", "map_hi": "float64",
}  # fmt: skip
BATCH = 16


def files_of(source: Path) -> list[str]:
    """Lists the paths of the images in a folder, or the paths in the first column of a Parquet file."""
    if source.suffix != ".parquet":
        if not source.exists():
            raise Refused(f"there is no {source}")
        return [str(file) for file in screen.found_in(source)]
    import pyarrow.parquet as parquet

    try:
        return [str(path) for path in parquet.read_table(source).column(0).to_pylist()]
    except (OSError, ValueError) as error:
        raise Refused(f"{source} is no Parquet list of paths: {error}") from None


def schema(model: Path) -> Any:
    """Returns the schema of the written Parquet, with the digest of the model's weights."""
    import pyarrow

    types = {"string": pyarrow.string(), "float64": pyarrow.float64(), "int64": pyarrow.int64()}
    fields = [(name, types.get(kind, pyarrow.binary())) for name, kind in COLUMNS.items()]
    return pyarrow.schema(fields, metadata={"pmsacl.detector": detector_digest(model)})


class Scorer:
    """A worker that loads the model once, then scores batches of paths.

    Each batch is written to one file, named by the batch's number, so that repeating a batch adds no rows.
    """

    def __init__(self, model: str, out: str) -> None:
        self.screen, self.out = screen.Screen(model, threads=1), Path(out)
        self.schema = schema(Path(model))

    def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        """Scores the batch {"batch", "files"} and writes its file; returns {"images", "failed", "worker"}."""
        import pyarrow
        import pyarrow.parquet as parquet

        target = part_of(self.out, int(row["batch"]))
        rows = [screen.packed(result) for result in self.screen.files([Path(file) for file in row["files"]])]
        columns = {name: [result.get(name) for result in rows] for name in COLUMNS}
        with files.replacing(target) as draft:
            parquet.write_table(pyarrow.table(columns, schema=self.schema), draft, compression="zstd")
        return {"images": len(rows), "failed": sum("error" in result for result in rows), "worker": os.getpid()}


def part_of(out: Path, number: int) -> Path:
    """Returns the path of a batch's file."""
    return out / f"part-{number:08d}.parquet"


def _todo(model: Path, source: Path, out: Path) -> list[dict[str, Any]]:
    """Lists the batches {"batch", "files"} whose files are not in `out` yet. Raises Refused if `out` has files of other
    images or of another model.
    """
    import pyarrow.parquet as parquet

    screen.read_card(model)
    files = files_of(source)
    out.mkdir(parents=True, exist_ok=True)
    expected = schema(model).metadata[b"pmsacl.detector"]
    todo = []
    for number, start in enumerate(range(0, len(files), BATCH)):
        batch, target = files[start : start + BATCH], part_of(out, number)
        if not target.exists():
            todo.append({"batch": number, "files": batch})
            continue
        table = parquet.ParquetFile(target)
        made_by = (table.schema_arrow.metadata or {}).get(b"pmsacl.detector")
        names = list(dict.fromkeys(table.read(["file"]).column(0).to_pylist()))
        if made_by != expected or names != list(map(screen.printed, batch)):
            raise Refused(f"{target} was made of other images or by another model: give another --out")
    return todo


def _counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    counts = {name: sum(int(row[name]) for row in rows) for name in ("images", "failed")}
    return {**counts, "workers": len({int(row["worker"]) for row in rows})}


def screen_here(model: Path, source: Path, out: Path) -> dict[str, int]:
    """Does the same as `screen_on_ray`, but in this process."""
    todo = _todo(model, source, out)
    scorer = Scorer(str(model), str(out)) if todo else None
    return _counted([scorer(row) for row in todo] if scorer else [])


def screen_on_ray(model: Path, source: Path, out: Path, address: str, workers: int = 2) -> dict[str, int]:
    """Scores the images of `source`, a folder or a Parquet list of paths valid on all machines, into `out`/*.parquet.

    address: of a running cluster ("auto", "ray://HOST:PORT"), or "local" to start one on this machine. Batches that are
    in `out` already are skipped. Returns {"images", "failed", "workers"}. Raises Refused if Ray is not installed, or
    if `out` has scores of another model or of other images.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise Refused("this needs Ray: pip install 'pmsacl-studio[ray]'") from None
    model, out = model.resolve(), out.resolve()
    todo = _todo(model, source, out)
    if not todo:
        return _counted([])
    began = not ray.is_initialized()
    if began and address == "local":
        ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    elif began:
        ray.init(address, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        scorer: Any = Scorer  # Ray creates one per worker
        rows = ray.data.from_items(todo, override_num_blocks=len(todo)).map(
            scorer, fn_constructor_args=(str(model), str(out)), num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=workers),
        )  # fmt: skip
        return _counted(rows.take_all())
    finally:
        if began:
            ray.shutdown()
