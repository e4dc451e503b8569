"""Scores many images with an exported model, in this process or on many machines through Ray, and imports the scores.

Ray distributes batches to workers that have each loaded the model, and repeats a batch if its worker is lost. Both
variants write Parquet files that `import_readings` reads.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Len

from core.engine import files
from core.engine.calibration.outlines import level_of
from core.engine.calibration.percentiles import Calibration, PixelScale
from core.studio.db.foreign import Count, Number, Refused, Sha256, refusing
from core.studio.db.store import Store, now
from core.studio.runs import foreign_runs, screen, weights
from core.studio.runs import records as runs
from core.studio.runs.exported import DETECTOR
from core.studio.runs.operating import OperatingPoint, in_effect
from core.studio.runs.readings import OUTLINE, pixel_scale, write_readings

COLUMNS = {
    "file": "string", "frame": "int64", "sha256": "string", "error": "string", "score": "double",
    "score_roi": "double", "threshold": "double", "threshold_roi": "double", "percentile": "double",
    "percentile_roi": "double", "flagged": "int64", "flagged_roi": "int64", "peak": "double", "map": "binary",
    "map_h": "int64", "map_w": "int64", "map_lo": "double", "map_hi": "double",
}  # fmt: skip
BATCH = 16


def files_of(source: Path) -> list[str]:
    """Lists the images in a folder, or the paths in a Parquet file's first column. Raises Refused for anything else."""
    if source.suffix != ".parquet":
        if not source.exists():
            raise Refused(f"{source} does not exist")
        return [str(file) for file in screen.found_in(source)]
    import pyarrow.parquet as parquet

    try:
        return [str(path) for path in parquet.read_table(source).column(0).to_pylist()]
    except (OSError, ValueError) as error:
        raise Refused(f"{source} is not a Parquet list of paths: {error}") from None


def detector_digest(folder: Path) -> str:
    """Computes the SHA-256 over the digests of the weights in an exported folder."""
    return weights.digest(folder / DETECTOR)


def schema(model: Path) -> Any:
    """Returns the schema of the Parquet files, with the digest of the model's weights in its metadata."""
    import pyarrow

    fields = [(name, pyarrow.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    return pyarrow.schema(fields, metadata={"pmsacl.detector": detector_digest(model)})


class Scorer:
    """Worker that loads the model once and then scores batches of image paths.

    Each batch is written to one file, named by the batch's number, so that repeating a batch adds no rows.
    """

    def __init__(self, model: str, out: str) -> None:
        self.screen, self.out = screen.Screen(model, threads=1), Path(out)
        self.schema = schema(Path(model))

    def __call__(self, row: dict[str, Any]) -> dict[str, int]:
        """Scores the batch {"batch": number, "files"} and writes its file; returns {"images", "failed", "worker"}."""
        import pyarrow
        import pyarrow.parquet as parquet

        target = part_of(self.out, int(row["batch"]))
        rows = [screen.packed(result) for result in self.screen.files([Path(file) for file in row["files"]])]
        columns = {name: [result.get(name) for result in rows] for name in COLUMNS}
        with files.replacing(target) as draft:
            parquet.write_table(pyarrow.table(columns, schema=self.schema), draft, compression="zstd")
        return {"images": len(rows), "failed": sum("error" in result for result in rows), "worker": os.getpid()}


def part_of(out: Path, number: int) -> Path:
    """Returns the path of the Parquet file of batch `number` in the folder `out`."""
    return out / f"part-{number:08d}.parquet"


def _todo(model: Path, source: Path, out: Path) -> list[dict[str, Any]]:
    """Lists the batches {"batch": number, "files"} whose files are missing in `out`.

    Raises Refused if `out` contains files of other images or of another model.
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
            raise Refused(f"{target} contains other images or another model's scores: choose another --out")
    return todo


def _counted(rows: list[dict[str, Any]]) -> dict[str, int]:
    counts = {name: sum(int(row[name]) for row in rows) for name in ("images", "failed")}
    return {**counts, "workers": len({int(row["worker"]) for row in rows})}


def screen_here(model: Path, source: Path, out: Path) -> dict[str, int]:
    """Scores images and writes the same files to `out` as `screen_on_ray`, but works in this process."""
    todo = _todo(model, source, out)
    scorer = Scorer(str(model), str(out)) if todo else None
    return _counted([scorer(row) for row in todo] if scorer else [])


def screen_on_ray(model: Path, source: Path, out: Path, address: str, workers: int = 2) -> dict[str, int]:
    """Scores images through Ray and writes the results to `out`/*.parquet; returns {"images", "failed", "workers"}.

    source: Folder of images, or Parquet file of image paths; the paths must be valid on all machines.
    address: Address of a running cluster ("auto" or "ray://HOST:PORT"), or "local" to start a cluster on this machine.

    Batches that are already in `out` are skipped. Raises Refused if Ray is not installed, or if `out` contains scores
    of another model or of other images.
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise Refused("Ray is not installed: run pip install 'pmsacl-studio[ray]'") from None
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


# Import of scores that were computed elsewhere.

MOST_BYTES = 256 << 20  # largest uncompressed size of a row group, in which `screen` writes 16 rows


class Scored(foreign_runs.Lenient):
    """Row of a Parquet file, which is imported as a score and heat map of a case."""

    sha256: Sha256
    frame: Count
    score: Number
    score_roi: Number
    peak: Number
    map: Annotated[bytes, Len(1, MOST_BYTES)]
    map_h: Count
    map_w: Count
    map_lo: Number
    map_hi: Number


def import_readings(store: Store, run_id: str, source: Path) -> dict[str, int]:
    """Imports scores and heat maps of a run from Parquet files that `screen --parquet` or `screen --ray` wrote.

    Rows are matched with test cases by file hash and frame. Rows without a matching case are skipped and counted as
    unknown. Returns {"taken", "unknown", "failed"}. Raises Refused, and stores nothing, if the run has no thresholds,
    or if a file lacks columns, was made by another model, or has invalid values.
    """
    run = runs.get_run(store, run_id)
    calibration = run["summary"].get("calibration")
    if not calibration:
        raise Refused(f"{run_id} has no thresholds yet: score its study first, or import the run with its thresholds")
    calibrations = {kind: Calibration.from_dict(values) for kind, values in calibration.items()}
    cases: dict[tuple[str, int], list[int]] = {}
    for case in store.query("SELECT id, sha256, frame FROM cases WHERE study = ? AND split = 'test'", [run["study"]]):
        cases.setdefault((case["sha256"], case["frame"]), []).append(case["id"])
    files = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not files or not files[0].exists():
        raise Refused(f"{source} contains no Parquet file")
    made_by = weights.digest(runs.run_folder(store, run_id))
    for file in files:  # all rows are checked before the first one is stored
        for row in _rows(file, made_by, run_id):
            if row is not None:
                foreign_runs.check_map(row)
    counts = {"taken": 0, "unknown": 0, "failed": 0}
    point = in_effect(store, run_id)[run_id]
    readings: list[dict[str, Any]] = []
    for row in itertools.chain.from_iterable(_rows(file, made_by, run_id) for file in files):
        ids = cases.get((row["sha256"], row["frame"]), []) if row else []
        counts["failed" if row is None else "taken" if ids else "unknown"] += max(1, len(ids))
        if row and ids:
            readings += _reading(row, run_id, ids, calibrations, pixel_scale(run), point)
        if len(readings) >= 256:
            write_readings(store, readings)
            readings = []
    write_readings(store, readings)
    return counts


def _rows(file: Path, made_by: str, run_id: str) -> Iterator[dict[str, Any] | None]:
    """Yields the checked rows of a Parquet file, and None for each image that could not be read."""
    import pyarrow.parquet as parquet

    with refusing(f"{file.name} is not a Parquet file of `screen`: it", Refused):
        table = parquet.ParquetFile(file)
        types = {field.name: str(field.type) for field in table.schema_arrow}
        wrong = sorted(name for name in Scored.model_fields if types.get(name) != COLUMNS[name])
        if wrong:
            raise Refused(f"{file} was not written by `screen`: missing or of another type: {', '.join(wrong)}")
        if (table.schema_arrow.metadata or {}).get(b"pmsacl.detector") != made_by.encode():
            raise Refused(f"{file} was not scored by the model {run_id}")
        for group in range(table.num_row_groups):
            if table.metadata.row_group(group).total_byte_size > MOST_BYTES:
                raise Refused(f"{file} was not written by `screen`: a row group is larger than {MOST_BYTES} bytes")
            for batch in table.iter_batches(BATCH, [group], [*Scored.model_fields]):
                for row in batch.to_pylist():
                    yield None if row["score"] is None else Scored.model_validate(row).model_dump()


def _reading(
    row: dict, run_id: str, ids: list[int], calibrations: dict[str, Calibration], scale: PixelScale,
    point: OperatingPoint,
) -> list[dict[str, Any]]:  # fmt: skip
    reading: dict[str, Any] = {"run": run_id, "created": now()}
    reading |= {name: row[name] for name in ("map", "map_h", "map_w", "map_lo", "map_hi")}
    for kind, ending in (("plain", ""), ("roi", "_roi")):
        score = row[f"score{ending}"]
        percentile = calibrations[kind].percentile(score)
        reading |= {
            f"score{ending}": score,
            f"percentile{ending}": float(percentile),
            f"flagged{ending}": bool(point.flagged(np.asarray(score), np.asarray(percentile))),
        }
    reading["extra"] = json.dumps({OUTLINE: float(level_of(row["peak"], scale))} if scale.apart else {})
    return [{**reading, "case_id": case} for case in ids]
