"""Exports and imports models: one folder with the weights, a card, an ONNX graph and a script that runs the graph.

export_run(store, "blend-head-1a2b3c4d", Path("model"))     # in this home
python model/screen.py IMAGES --out SCORES                  # anywhere, with the packages of model/requirements.txt
import_model(other_store, Path("model"), "colon")           # in another home; checks the digest of each file
"""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from core.engine.files import write_bytes, write_json
from core.engine.registry import DETECTORS
from core.studio.db import journal, leftovers
from core.studio.db.foreign import Count, Name, Number, Refused, Sha256, read, read_json, refusing
from core.studio.db.store import Store, now
from core.studio.ingest.studies import load_arrays, show_study
from core.studio.runs import foreign_runs, operating, screen, weights
from core.studio.runs import records as runs
from core.studio.runs.operating import FLAG_PERCENTILE, in_effect
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import load_detector

FORMAT = 1
CARD, GRAPH, DETECTOR = "card.json", "model.onnx", "detector"
ENCODER = ("encoder.json", "encoder.safetensors", "centres.safetensors")
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = {"cv2": "opencv-python", "PIL": "pillow", "gdcm": "python-gdcm"}  # by module, if the names differ
COMPARED = 8  # number of images on which graph and detector are compared
USE = (
    "For research use; not a medical device. A score measures how much an image differs from the normal images of one "
    "study; a person decides. Thresholds are not valid for another kind of image, machine or preparation. To set them "
    "again, score a study of such images with the imported run."
)


def export_run(store: Store, run_id: str, out: Path, device: str = "cpu") -> dict[str, Any]:
    """Exports the detector of a finished run to the new or empty folder `out`; returns the model's card.

    If the detector can be exported as a graph, the graph is written and compared with the detector on images of the
    study. Otherwise only the weights are exported, and the card states why. Raises Refused (a ValueError) if the
    folder is not empty, and ValueError if the run is not a finished fit of a detector.
    """
    from core.engine.exported.graphs import CannotExport, write_onnx

    run = runs.get_run(store, run_id)
    detector = load_detector(store, run_id, device)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} is not empty: choose a new or an empty folder")
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
        rows = arrays.index("holdout", "test")[:COMPARED]
        images, roi = np.array(arrays.images[rows]), np.array(arrays.roi[rows])
        written = write_onnx(detector, images, roi, out / GRAPH)
        graph |= {"file": GRAPH, "bytes": written.bytes, "compared_on": len(images), "difference": written.difference}
        _write_code(out)
    except CannotExport as error:
        graph["why"] = str(error)
    card = _card(store, run, size, graph)
    write_bytes(out / "README.md", _page(card).encode())
    card["digests"] = {p.relative_to(out).as_posix(): screen.digest_of(p) for p in sorted(_files(out))}
    write_json(out / CARD, card)
    return card


def _write_code(out: Path) -> None:
    """Writes screen.py, the modules that it imports, and requirements.txt, so that the export reads images alike."""
    waiting, packages, read = ["core.studio.runs.screen"], set[str](), set[Path]()
    while waiting:
        names = waiting.pop().split(".")
        paths = [ROOT.joinpath(*names[:i], "__init__.py") for i in range(1, len(names) + 1)]
        for file in [path for path in (*paths, ROOT.joinpath(*names).with_suffix(".py")) if path.is_file()]:
            if file in read:
                continue
            read.add(file)
            code = file.read_bytes()
            for node in ast.walk(ast.parse(code)):
                named = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    named = [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
                waiting += [name for name in named if name.startswith("core.")]
                packages |= {name.split(".")[0] for name in named} - {"core", *sys.stdlib_module_names}
            inner = file.relative_to(ROOT)
            write_bytes(out / (inner.name if inner.stem == "screen" else inner), code)
    lines = sorted(PACKAGES.get(name, name) for name in packages)
    write_bytes(out / "requirements.txt", "\n".join([*lines, ""]).encode())


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and file.name != CARD)


def _copy(file: Path, target: Path) -> None:
    """Copies a file. In a JSON file, absolute paths are replaced by file names."""
    if file.suffix == ".json":
        write_json(target, foreign_runs.nameless(json.loads(file.read_text())))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _encoder_settings(store: Store, run: dict) -> dict[str, Any]:
    """Returns an encoder's settings with the network that was built, which may differ from the configured one."""
    settings = foreign_runs.nameless(runs.settings_of(run["config"]))
    built = json.loads((runs.run_folder(store, run["id"]) / "encoder.json").read_text("utf-8"))["encoder"]
    return {**settings, "encoder": {**settings.get("encoder", {}), "arch": built["arch"]}}


def _card(store: Store, run: dict, size: int, graph: dict) -> dict[str, Any]:
    study, summary = show_study(store, run["study"]), run["summary"]
    encoder = runs.get_run(store, run["parent"]) if run["parent"] else None
    point = in_effect(store, run["id"])[run["id"]]
    figures = store.query('SELECT "row" FROM evaluations WHERE run = ? ORDER BY id DESC LIMIT 2', [run["id"]])
    return {
        "format": FORMAT,
        "detector": run["method"],
        "title": DETECTORS.title(run["method"]),
        "size": size,
        "config": foreign_runs.nameless(runs.settings_of(run["config"])),  # marks are ids in this home
        "encoder": _encoder_settings(store, encoder) if encoder else None,
        "encoder_method": encoder["method"] if encoder else None,
        "graph": graph,
        "calibration": summary.get("calibration"),
        "pixels": summary.get("pixels"),
        "thresholds": {name: summary[name] for name in ("threshold", "threshold_roi") if name in summary},
        "flag_percentile": FLAG_PERCENTILE,
        "operating_point": {name: getattr(point, name) for name in ("source", "threshold")},
        "scales": study["config"].get("scales") or {},  # window of each scanner: pixel values shown as 0 and 255
        "counts": study["counts"],
        "figures": [_plain(json.loads(row["row"])) for row in figures],
        "version": runs.version(),
        "code": run["code"],
        "packages": json.loads(run["packages"]) if isinstance(run["packages"], str) else run["packages"],
        "made": now(),
        "use": USE,
        "licence": "MIT for the code. Initial weights: " + _licence(runs.run_folder(store, run["id"])),
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the numbers and the protocol of an evaluation, without names of runs."""
    return {k: v for k, v in row.items() if isinstance(v, (int, float, bool)) or k == "protocol"}


def _licence(folder: Path) -> str:
    for file in sorted(folder.rglob("encoder.json")):
        licence = json.loads(file.read_text()).get("origin", {}).get("licence")
        if licence:
            return str(licence)
    return "random, without a licence"


def _page(card: dict[str, Any]) -> str:
    """Returns the text of README.md, which describes the card in words."""
    counts = ", ".join(f"{n} {name}" for name, n in card["counts"].items())
    graph = card["graph"]
    use = (
        f"The inputs of `model.onnx` are `image`, uint8 (N, {card['size']}, {card['size']}, 3), not normalised, and "
        "`roi`, uint8, of the same side length. Its outputs are `map`, `score` and `score_roi`. The scores differ from "
        f"the detector's by at most {graph.get('difference', 0):.1g}. OpenVINO reads the same file.\n\n"
        "    pip install -r requirements.txt\n    python screen.py IMAGES --out SCORES\n"
        if graph["file"]
        else f"There is no graph: {graph['why']}. `launch.py import` imports the weights into another home."
    )
    thresholds = ", ".join(f"{name} {value:.4g}" for name, value in card["thresholds"].items()) or "none yet"
    lines = [
        f"# {card['title']}", f"PMSACL Studio {card['version']}, {card['made']}.", use, "## Intended use", card["use"],
        "## Data", f"{counts}. Images are resized to {card['size']} x {card['size']} pixels.", "## Thresholds",
        thresholds + ".", "## Licence", card["licence"] + ".",
    ]  # fmt: skip
    return "\n\n".join(lines) + "\n"


class Point(foreign_runs.Lenient):
    """Operating point of an exported model: a threshold for scores, or None for the default percentile."""

    source: Literal["dragged", "limit", "readers", "default"] = "default"
    threshold: Number | None = None


class Card(foreign_runs.Lenient):
    """Fields of a model's card.json that are read on import."""

    format: Literal[1]
    detector: Name
    size: foreign_runs.Side
    config: dict[str, Any]
    encoder: dict[str, Any] | None
    calibration: foreign_runs.Calibrations | None
    pixels: foreign_runs.Pixels | None
    thresholds: foreign_runs.Thresholds
    operating_point: Point = Point()
    counts: dict[Name, Count]
    version: Name
    made: Name
    digests: dict[Name, Sha256]


def import_model(store: Store, folder: Path, study: str, name: str | None = None) -> dict[str, str]:
    """Imports an exported model into a study; returns the ids of the new runs, {'encoder', 'fit'}.

    Everything is checked before it is stored: the types in the card, the digest of each file, the settings (by the
    detector's configuration) and the weights (by loading them). Only files inside the folder are read, and no name in
    the card is used as a path. The model's thresholds are used until the run has scored its study here. Raises Refused
    if a check fails.
    """
    subject = "the model"
    try:
        card: Card = read(Card, read_json((folder / CARD).read_bytes(), "card.json"), "card.json")
    except OSError:
        raise Refused(f"{folder} is not an exported model: it contains no readable card.json") from None
    study = show_study(store, study)["id"]
    encoder_config = {"size": card.size, "epochs": 0, **(card.encoder or {})}
    encoder = foreign_runs.settings("pretrain", "imported", encoder_config, store.home, {}, "the model's encoder")
    fit = foreign_runs.settings("fit", card.detector, card.config, store.home, {}, subject)
    given_figures = {"calibration": card.calibration, "pixels": card.pixels}
    summary = {key: foreign_runs.kept(figures) for key, figures in given_figures.items() if figures}
    staged = leftovers.begin(store.home.path, "bundle-")
    moved: list[Path] = []
    try:
        _stage(folder, card, staged)
        with refusing(subject, Refused):
            DETECTORS.get(card.detector).load(staged / DETECTOR)
        with store.write():
            first = runs.create_run(store, study, "pretrain", "imported", encoder, name=name and f"{name}, encoder")
            moved.append(runs.run_folder(store, first))
            second = runs.create_run(store, study, "fit", card.detector, fit, first, name)
            moved.append(runs.run_folder(store, second))
            for source, run_id in (("encoder", first), (DETECTOR, second)):
                weights.seal(staged / source)
                (staged / source).rename(runs.run_folder(store, run_id))  # replaces the run's empty folder
                runs.update_run(store, run_id, status="done", finished=now(), seconds=0.0)
            runs.update_run(store, second, summary=summary | foreign_runs.kept(card.thresholds))
            if (point := card.operating_point).threshold is not None and point.source != "default":
                operating.choose(store, study, second, point.source, point.threshold, "imported")
            journal.log(store, second, f"Imported: exported by version {card.version} on {card.made}, {card.counts}")
    except BaseException:
        for target in moved:
            shutil.rmtree(target, ignore_errors=True)
        raise
    finally:
        leftovers.discard(staged)
    return {"encoder": first, "fit": second}


def _stage(folder: Path, card: Card, staged: Path) -> None:
    """Copies the detector and its encoder to `staged`. Raises Refused if a digest differs from the card."""
    files = foreign_runs.files_of(folder / DETECTOR)
    listed = {name for name in card.digests if name.startswith(f"{DETECTOR}/")}
    by_name = {f"{DETECTOR}/{file.as_posix()}": file for file in files}
    if not files or (differ := listed.symmetric_difference(by_name)):
        problem = f"differs from card.json in {min(differ)[:80]!r}" if files else "contains no detector"
        raise Refused(f"{folder} {problem}: copy the folder again")
    for name, file in by_name.items():
        target = staged / DETECTOR / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / DETECTOR / file, target)
        if screen.digest_of(target) != card.digests[name]:
            raise Refused(f"{name} in {folder} was changed after the export: copy the folder again")
        if file.suffix == ".json":
            read_json(target.read_bytes(), name)
    (staged / "encoder").mkdir()
    inner = next((file.parent for file in files if file.name == ENCODER[0]), None)
    for name in ENCODER:
        if inner is not None and (staged / DETECTOR / inner / name).is_file():
            shutil.copyfile(staged / DETECTOR / inner / name, staged / "encoder" / name)
