"""Exported models: scores and images a second beside the studio's own, by onnxruntime, OpenVINO and Ray."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.benches.harness import bench
from core.engine.detectors.lesion_head.config import LESION_PRESETS
from core.engine.exported.graph_file import full_precision, furthest
from core.engine.exported.graphs import exportable
from core.engine.phantom.frame import draw_case
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest.originals import image_of
from core.studio.ingest.resize import prepare
from core.studio.ingest.studies import import_study
from core.studio.runs import exported, pipeline, screen, screened
from core.studio.runs.scoring import load_detector, look

SHORT = {"steps": 20, "batch": 8}  # trainings: what is measured is what comes after them


@bench("exported")
def run(quick: bool = False, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Exported models: their scores, and images a second beside the studio's own.

    "detectors": {name: {"megabytes", "onnxruntime", "openvino", "ray", "here", "one", "two"}}.
    onnxruntime, openvino, ray: the largest difference of a score from the studio's own. here, one, two: images a second
    from file to score, of the studio, and of the folder's script with one and with two processes. ratio: the least
    "one" over "here" of all. "none": what cannot leave as a graph.
    """
    from core.engine.registry import DETECTORS

    names = only or (("padim",) if quick else tuple(exportable()))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as tmp:
        images = _drawn(Path(tmp) / "images", 24 if quick else 96)
        store = Store(Home.at(Path(tmp) / "home"))
        study = import_study(store, "bench", images).study
        encoder = pipeline.create_untrained(store, study, 64 if quick else 224, init="auto", arch="efficientnet-lite0")
        pipeline.pretrain_run(store, encoder)
        for name in names:
            figures[name] = _measured(store, encoder, name, Path(tmp) / name, images / "test")
        store.close()
    none = sorted(set(DETECTORS.names()) - set(exportable()))
    return {"detectors": figures, "none": none, "ratio": min(row["one"] / row["here"] for row in figures.values())}


def _drawn(folder: Path, tests: int) -> Path:
    for kind, count, first in (("train/normal", 40, 0), ("test/normal", tests, 1000)):
        (folder / kind).mkdir(parents=True)
        for i in range(count):
            image = draw_case((first, i), 256).image
            cv2.imwrite(str(folder / kind / f"{i:04d}.png"), image[..., ::-1])
    return folder


def _config(name: str) -> dict[str, Any]:
    from core.engine.registry import DETECTORS

    kind = DETECTORS.get(name)
    config = (getattr(kind, "presets", {}).get("quick") or kind.Config()).to_dict()
    if "head" in config:
        config["head"] |= SHORT
    if name == "lesion-head":
        config |= LESION_PRESETS["quick"].to_dict() | SHORT
    return config | ({"epochs": 1, "max_steps": 20} if name == "igd" else {})


def _measured(store: Store, encoder: str, name: str, folder: Path, source: Path) -> dict[str, Any]:
    import openvino

    fit = pipeline.create_fit(store, encoder, name, _config(name))
    pipeline.fit_run(store, fit, "cpu")
    pipeline.score_run(store, fit, "cpu")
    card = exported.export_run(store, fit, folder / "model")
    detector, size = load_detector(store, fit, "cpu"), card["size"]
    query = "SELECT path, frame, sha256, scale FROM cases WHERE study = ? AND split = 'test' ORDER BY path"
    cases = store.query(query, [store.first("SELECT study FROM runs WHERE id = ?", [fit])["study"]])
    own: list[np.ndarray] = []

    def here() -> None:
        for start in range(0, len(cases), 32):
            pairs = [prepare(image_of(case), size) for case in cases[start : start + 32]]
            own.append(look(detector, *(np.stack(column) for column in zip(*pairs, strict=True)))[1]["roi"])

    rates = {"here": len(cases) / _seconds(here)}
    with full_precision(detector):
        own.clear()
        here()
    wanted = np.concatenate(own)
    model = folder / "model"
    for word, processes in (("one", 1), ("two", 2)):
        said = screen.screen_folder(model, source, folder / word, processes=processes, maps=False)
        rates[word] = len(cases) / said["seconds"]
    session = screen.Screen(model)
    pairs = [prepare(image_of(case), size) for case in cases]
    shown, roi = (np.stack(column) for column in zip(*pairs, strict=True))
    compiled = openvino.Core().compile_model(str(model / "model.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    parts = [slice(i, i + 8) for i in range(0, len(cases), 8)]
    given = {
        "onnxruntime": [session.session.run(["score_roi"], {"image": shown[p], "roi": roi[p]})[0] for p in parts],
        "openvino": [compiled([shown[p], roi[p]])[2].copy() for p in parts],
        "ray": [_by_ray(model, source, folder / "ray")],
    }
    differences = {by: furthest([np.concatenate(values)], [wanted]) for by, values in given.items()}
    return {"megabytes": card["graph"]["bytes"] / 1e6, **differences, **rates}


def _by_ray(model: Path, source: Path, out: Path) -> np.ndarray:
    import pyarrow.parquet as parquet

    screened.screen_on_ray(model, source, out, "local", 2)
    rows = sorted(parquet.read_table(out, columns=["file", "score_roi"]).to_pylist(), key=lambda row: row["file"])
    return np.array([row["score_roi"] for row in rows])


def _seconds(function: Callable[[], None]) -> float:
    started = time.monotonic()
    function()
    return time.monotonic() - started
