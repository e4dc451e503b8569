"""Exported models: scores and images a second beside the studio's own, by onnxruntime, OpenVINO and Ray."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from core.engine.detectors.lesion_head.config import LESION_PRESETS
from core.engine.exported.graphs import exportable, full_precision, furthest
from core.engine.phantom.frame import draw_case
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.ingest.originals import image_of
from core.studio.ingest.resize import prepare
from core.studio.ingest.studies import import_study
from core.studio.runs import exported, pipeline, screen, screened
from core.studio.runs.scoring import load_detector, look
from tests.benches import Aim, bench

SHORT = {"steps": 20, "batch": 8}  # trainings: what is measured is what comes after them


@bench("exported", Aim(1, at_least=True))
def run(quick: bool = False, only: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Exported models: their scores, and images a second beside the studio's own.

    "detectors": {name: {"megabytes", "onnxruntime", "openvino", "ray", "here", "one", "two"}}.
    onnxruntime, openvino, ray: the largest difference of a score from the studio's own. here, one: images from file to
    score, once all is loaded, in a second of the processor, of the studio and of the folder's script, one thread each.
    two: how many times as many images two processes of the script take by the clock. ratio: the least "one" over
    "here" of all. "none": what cannot leave as a graph.
    """
    import ray

    from core.engine.registry import DETECTORS

    names = only or (("padim",) if quick else tuple(exportable()))
    figures: dict[str, Any] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as tmp:
        try:
            images = _drawn(Path(tmp) / "images", 32 if quick else 80)
            store = opening.open(Home.at(Path(tmp) / "home"))
            study = import_study(store, "bench", images).study
            side = 64 if quick else 224
            encoder = pipeline.create_untrained(store, study, side, init="auto", arch="efficientnet-lite0")
            pipeline.pretrain_run(store, encoder)
            for name in names:
                figures[name] = _measured(store, encoder, name, Path(tmp) / name, images / "test", 2 if quick else 3)
            store.close()
        finally:
            ray.shutdown()
            torch.set_num_threads(threads)
    none = sorted({*DETECTORS.names(), "learnt"} - set(exportable()))
    ratio = min(row["one"] / row["here"] for row in figures.values())
    return {"detectors": figures, "none": none, "ratio": ratio}


def _drawn(folder: Path, tests: int) -> Path:
    for kind, count, first in (("train/normal", 40, 0), ("test/normal", tests, 1000)):
        (folder / kind).mkdir(parents=True)
        for i in range(count):
            image = draw_case((first, i), 256).image
            cv2.imwrite(str(folder / kind / f"{i:04d}.png"), image[..., ::-1])
    return folder


def _config(name: str) -> dict[str, Any]:
    from core.engine.registry import DETECTORS

    config = DETECTORS.get(name).preset().to_dict()
    if "head" in config:
        config["head"] |= SHORT
    if name == "lesion-head":
        config |= LESION_PRESETS["quick"].to_dict() | SHORT
    return config | ({"epochs": 1, "max_steps": 20} if name == "igd" else {})


def _measured(store: Store, encoder: str, name: str, folder: Path, source: Path, turns: int) -> dict[str, Any]:
    import openvino

    fit = pipeline.create_fit(store, encoder, name, _config(name))
    pipeline.fit_run(store, fit, "cpu")
    card = exported.export_run(store, fit, folder / "model")
    detector, size = load_detector(store, fit, "cpu"), card["size"]
    query = "SELECT path, frame, sha256, scale FROM cases WHERE study = ? AND split = 'test' ORDER BY path"
    cases = store.query(query, [store.first("SELECT study FROM runs WHERE id = ?", [fit])["study"]])
    own: list[np.ndarray] = []

    def here() -> None:
        for start in range(0, len(cases), 32):
            pairs = [prepare(image_of(case), size) for case in cases[start : start + 32]]
            own.append(look(detector, *(np.stack(column) for column in zip(*pairs, strict=True)))[1]["roi"])

    with full_precision(detector):
        here()
    wanted = np.concatenate(own)
    model, few = folder / "model", folder / "few"
    few.mkdir()
    for file in sorted(source.rglob("*.png"))[:16]:  # a batch for each of two processes
        shutil.copy(file, few)

    def screened_by(processes: int, clock: Callable[[], float]) -> float:
        """Images a second, of those that `few` has not: what a process takes to begin is in both."""
        counts, seconds = [], []
        for images in (few, source):
            with tempfile.TemporaryDirectory() as out:
                began = clock()
                said = screen.screen_folder(model, images, Path(out), processes=processes, threads=1, maps=False)
                seconds.append(clock() - began)
            counts.append(said["images"])
        return (counts[1] - counts[0]) / (seconds[1] - seconds[0])

    def by_here() -> float:
        began = time.process_time()
        here()
        return len(cases) / (time.process_time() - began)

    taken = [
        (by_here(), screened_by(1, time.process_time), screened_by(2, time.monotonic) / screened_by(1, time.monotonic))
        for _ in range(turns)
    ]
    rates = dict(zip(("here", "one", "two"), map(statistics.median, zip(*taken, strict=True)), strict=True))
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
