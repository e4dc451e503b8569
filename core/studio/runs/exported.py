"""Export and import of models: one folder with the weights, a card, an ONNX graph and a script that runs it.

export_run(store, "blend-head-1a2b3c4d", Path("model"))     # here
python model/screen.py IMAGES --out SCORES                  # anywhere: onnxruntime, numpy, opencv
import_model(other_store, Path("model"), "colon")           # in another home, each file checked by its digest
take_in(store, "blend-head-1a2b3c4d", Path("scores"))       # scores made elsewhere, no image is read
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from core.engine.calibration.outlines import level_of
from core.engine.calibration.percentiles import Calibration, PixelScale
from core.engine.files import write_bytes, write_json
from core.engine.registry import DETECTORS
from core.studio.db import journal
from core.studio.db.seals import Damaged
from core.studio.db.store import Store, now
from core.studio.ingest.studies import load_arrays, show_study
from core.studio.runs import records as runs
from core.studio.runs import screen, weights
from core.studio.runs.operating import FLAG_PERCENTILE
from core.studio.runs.readings import OUTLINE, size_of, write_readings
from core.studio.runs.scoring import load_detector

FORMAT = 1
CARD, GRAPH, DETECTOR = "card.json", "model.onnx", "detector"
SOURCES = ("runs/screen.py", "ingest/resize.py", "../engine/roi.py", "../engine/calibration/quantise.py")
OURS = re.compile(r"from core\.(?:\w+\.)*(\w+) import ")
COMPARED = 8  # images that the graph is compared on
USE = (
    "Research use; not a medical device. Scores say how unlike the normal images of one study an image is; a person "
    "decides. On images of another kind, machine or preparation the thresholds do not hold: set them anew on normal "
    "images of these (score a study of them with the imported run)."
)
Said = Callable[[str], None]


class Refused(ValueError):
    """Error for a model or a table that cannot be exported or imported; the message says why."""


def export_run(store: Store, run_id: str, out: Path, device: str = "cpu") -> dict[str, Any]:
    """Writes a finished fit to the folder `out`, which is made; returns its card.

    If the detector can be exported as a graph, the graph is written and compared with the detector on images of the
    study; otherwise the card says why not, and the folder holds the weights alone. Raises ValueError if the folder is
    not empty.
    """
    from core.engine.exported.graph_file import write_onnx
    from core.engine.exported.graphs import CannotExport

    run = runs.get_run(store, run_id)
    detector = load_detector(store, run_id, device)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} is there already; give a folder that is not, or an empty one")
    out.mkdir(parents=True, exist_ok=True)
    source = runs.run_folder(store, run_id)
    for file in weights.files(source):
        inner = file.relative_to(source)
        if not set(inner.parts) & set(weights.LEFT_OUT):
            _copy(file, out / DETECTOR / inner)
    size = size_of(store, run)
    graph: dict[str, Any] = {"file": None, "why": None}
    try:
        arrays = load_arrays(store, run["study"], size)
        places = arrays.index("holdout", "test")[:COMPARED]
        images, roi = np.array(arrays.images[places]), np.array(arrays.roi[places])
        written = write_onnx(detector, images, roi, out / GRAPH)
        graph |= {"file": GRAPH, "bytes": written.bytes, "compared_on": len(images), "difference": written.difference}
        for name in SOURCES:
            code = (Path(__file__).resolve().parents[1] / name).read_text(encoding="utf-8")
            write_bytes(out / Path(name).name, OURS.sub(r"from \1 import ", code).encode())
    except CannotExport as error:
        graph["why"] = str(error)
    card = _card(store, run, size, graph)
    write_bytes(out / "README.md", _page(card).encode())
    card["digests"] = {p.relative_to(out).as_posix(): screen.digest_of(p) for p in sorted(_files(out))}
    write_json(out / CARD, card)
    return card


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and file.name != CARD)


def _copy(file: Path, target: Path) -> None:
    """JSON without the places of files on this machine, anything else as it is."""
    if file.suffix == ".json":
        write_json(target, _nameless(json.loads(file.read_text())))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _nameless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nameless(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_nameless(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _card(store: Store, run: dict, size: int, graph: dict) -> dict[str, Any]:
    study, summary = show_study(store, run["study"]), run["summary"]
    encoder = runs.get_run(store, run["parent"]) if run["parent"] else None
    figures = store.query('SELECT "row" FROM evaluations WHERE run = ? ORDER BY id DESC LIMIT 2', [run["id"]])
    return {
        "format": FORMAT,
        "detector": run["method"],
        "title": DETECTORS.title(run["method"]),
        "size": size,
        "config": _nameless(runs.settings_of(run["config"])),  # the marks are of cases of this home
        "encoder": _nameless(runs.settings_of(encoder["config"])) if encoder else None,
        "encoder_method": encoder["method"] if encoder else None,
        "graph": graph,
        "calibration": summary.get("calibration"),
        "pixels": summary.get("pixels"),
        "thresholds": {name: summary[name] for name in ("threshold", "threshold_roi") if name in summary},
        "flag_percentile": FLAG_PERCENTILE,
        "counts": study["counts"],
        "figures": [_plain(json.loads(row["row"])) for row in figures],
        "version": runs.version(),
        "code": run["code"],
        "packages": json.loads(run["packages"]) if isinstance(run["packages"], str) else run["packages"],
        "made": now(),
        "use": USE,
        "licence": "MIT for the code; of the first weights: " + _licence(runs.run_folder(store, run["id"])),
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers of an evaluation, without names."""
    return {k: v for k, v in row.items() if isinstance(v, (int, float, bool)) or k == "protocol"}


def _licence(folder: Path) -> str:
    for file in sorted(folder.rglob("encoder.json")):
        licence = json.loads(file.read_text()).get("origin", {}).get("licence")
        if licence:
            return str(licence)
    return "they were random"


def _page(card: dict[str, Any]) -> str:
    """The card for people."""
    counts = ", ".join(f"{n} {name}" for name, n in card["counts"].items())
    graph = card["graph"]
    how = (
        f"`model.onnx` takes `image`, uint8 (N, {card['size']}, {card['size']}, 3), and `roi`, uint8 of the same side, "
        "and gives `map`, `score` and `score_roi`; normalisation is inside. Its scores and the detector's differ by at "
        f"most {graph.get('difference', 0):.1g}. OpenVINO reads the same file.\n\n"
        "    pip install onnxruntime numpy opencv-python\n    python screen.py IMAGES --out SCORES\n"
        if graph["file"]
        else f"There is no graph: {graph['why']}. `launch.py import` takes the weights into another home."
    )
    thresholds = ", ".join(f"{name} {value:.4g}" for name, value in card["thresholds"].items()) or "none yet"
    lines = [
        f"# {card['title']}", f"PMSACL Studio {card['version']}, {card['made']}.", how, "## Intended use", card["use"],
        "## Made of", f"{counts}. Images are seen at {card['size']} pixels a side.", "## Thresholds", thresholds + ".",
        "## Licence", card["licence"] + ".",
    ]  # fmt: skip
    return "\n\n".join(lines) + "\n"


def import_model(store: Store, folder: Path, study: str, name: str | None = None) -> dict[str, str]:
    """Imports what `export_run` wrote into a study of this home; returns the new runs' ids {'encoder', 'fit'}.

    Each file is checked by its digest before it is read. The model's thresholds come along until the run is scored
    whole here. Raises Refused (or screen.BadModel) with what is wrong; nothing is kept then.
    """
    card = screen.read_card(folder)
    if card.get("format") != FORMAT:
        raise Refused(f"{folder} has the format {card.get('format')}; this version reads {FORMAT}")
    files = [file for file in card["digests"] if file.startswith(f"{DETECTOR}/")]
    wrong = [file for file in files if Path(file).suffix not in (".json", ".safetensors")]
    if wrong or not files:
        raise Refused(f"{folder} holds no detector" if not files else f"{wrong[0]} is no file of a detector")
    study = show_study(store, study)["id"]
    DETECTORS.get(card["detector"])
    config = {"size": card["size"], "epochs": 0, **(card["encoder"] or {})}
    runs_made = {
        "encoder": runs.create_run(store, study, "pretrain", "imported", config, name=name and f"{name}, encoder")
    }
    try:
        _place(store, runs_made["encoder"], folder, [f for f in files if "/encoder/" in f][:3], flat=True)
        runs_made["fit"] = runs.create_run(
            store, study, "fit", card["detector"], card["config"], runs_made["encoder"], name
        )
        _place(store, runs_made["fit"], folder, files)
        load_detector(store, runs_made["fit"], "cpu")
        summary = {key: card[key] for key in ("calibration", "pixels") if card.get(key)} | card["thresholds"]
        runs.update_run(store, runs_made["fit"], summary=summary)
        line = f"Imported: made by version {card['version']} on {card['made']}, {card['counts']}"
        journal.log(store, runs_made["fit"], line)
    except BaseException as error:
        for run_id in reversed(runs_made.values()):
            runs.update_run(store, run_id, status="failed")
            runs.delete_run(store, run_id)
        if isinstance(error, (Damaged, KeyError, TypeError)):
            raise Refused(f"{folder} cannot be read as {card['title']}: {error}") from None
        raise
    return runs_made


def _place(store: Store, run_id: str, folder: Path, files: list[str], flat: bool = False) -> None:
    """Copy files into a run's folder, sealed; flat: beside each other."""
    target = runs.run_folder(store, run_id)
    for file in files:
        own = target / (Path(file).name if flat else Path(file).relative_to(DETECTOR))
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file, own)
    weights.seal(target)
    runs.update_run(store, run_id, status="done", finished=now(), seconds=0.0)


NEEDED = ("sha256", "score", "score_roi", "peak", "map", "map_h", "map_w", "map_lo", "map_hi")


def take_in(store: Store, run_id: str, source: Path) -> dict[str, int]:
    """Imports readings of a run from the Parquet that `screen --parquet` or `screen --ray` wrote; no image is decoded.

    Rows are matched by the hash of the image's file; those of no test case of the study are left out. The run must have
    been scored, so that it has thresholds. Returns {"taken", "unknown", "failed"}. Raises Refused if the table lacks
    columns, or was made by another model than this run.
    """
    import pyarrow.parquet as parquet

    run = runs.get_run(store, run_id)
    calibration = run["summary"].get("calibration")
    if not calibration:
        raise Refused(f"{run_id} has no thresholds yet: score it once, or import it with those that it had")
    calibrations = {kind: Calibration.from_dict(values) for kind, values in calibration.items()}
    pixels = run["summary"].get("pixels")
    scale = PixelScale.of(pixels) if pixels else None
    cases: dict[str, list[int]] = {}
    for case in store.query("SELECT id, sha256 FROM cases WHERE study = ? AND split = 'test'", [run["study"]]):
        cases.setdefault(case["sha256"], []).append(case["id"])
    counts = {"taken": 0, "unknown": 0, "failed": 0}
    files = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not files:
        raise Refused(f"{source} holds no Parquet file")
    weights_here = weights.digest(runs.run_folder(store, run_id))
    for file in files:
        try:
            table = parquet.ParquetFile(file)
        except (OSError, ValueError) as error:
            raise Refused(f"{file} is no Parquet file that can be read: {error}") from None
        missing = set(NEEDED) - set(table.schema_arrow.names)
        if missing:
            raise Refused(f"{file} lacks {', '.join(sorted(missing))}: it is not what `screen` writes")
        said = (table.schema_arrow.metadata or {}).get(b"pmsacl.detector", b"").decode()
        if said and said != weights_here:
            raise Refused(f"{file} was scored by another model than {run_id}")
        for batch in table.iter_batches(256):
            rows = [_reading(row, run_id, ids, calibrations, scale) for row, ids in _matched(batch, cases, counts)]
            flat = [row for several in rows for row in several]
            counts["taken"] += len(flat)
            write_readings(store, flat)
    return counts


def _matched(batch: Any, cases: dict[str, list[int]], counts: dict[str, int]) -> Iterator[tuple[dict, list[int]]]:
    for row in batch.to_pylist():
        if row["score"] is None:
            counts["failed"] += 1
        elif row["sha256"] not in cases:
            counts["unknown"] += 1
        else:
            yield row, cases[row["sha256"]]


def _reading(
    row: dict, run_id: str, ids: list[int], calibrations: dict[str, Calibration], scale: PixelScale | None
) -> list[dict[str, Any]]:
    own: dict[str, Any] = {"run": run_id, "created": now()}
    own |= {name: row[name] for name in ("map", "map_h", "map_w", "map_lo", "map_hi")}
    for kind, ending in (("plain", ""), ("roi", "_roi")):
        score, calibration = row[f"score{ending}"], calibrations[kind]
        own |= {
            f"score{ending}": score,
            f"percentile{ending}": float(calibration.percentile(score)),
            f"flagged{ending}": bool(calibration.flagged(score, FLAG_PERCENTILE)),
        }
    outlined = scale is not None and scale.apart
    own["extra"] = json.dumps({OUTLINE: float(level_of(row["peak"], scale))} if outlined and scale else {})
    return [{**own, "case_id": case} for case in ids]


def detector_digest(folder: Path) -> str:
    """Computes the SHA-256 over the digests of the weights in an exported folder."""
    return weights.digest(folder / DETECTOR)
