"""A million training images and ten million screenings, counted from rates measured here."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.percentiles import Calibration
from core.engine.detectors.base import FitContext
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.phantom.frame import draw_case
from core.engine.tensors import pick_device
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.ingest.studies import StudyArrays, import_study, load_arrays
from core.studio.runs.pipeline import create_fit, create_untrained
from core.studio.runs.readings import reading_rows, write_readings
from core.studio.runs.scoring import look
from tests.benches import bench
from tests.benches.steps import joint_step

TRAINING, SCREENINGS = 1_000_000, 10_000_000
HOUR = 3600.0


@bench("cost")
def cost(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """What a million training images and ten million screenings take on 1, 8 and 64 devices, counted from one.

    Counted, not run: every rate is measured here, at 256 px and with the paper's network, and multiplied. What is not
    shared among devices today is not divided by their number: one machine imports, one process writes to the database.

    "devices": {count: {"epoch_hours", "training_hours", "beside_the_network", "screening_hours", "first"}}.

    training_hours: all epochs of the `paper` preset; beside_the_network: the part of a step that is not its passes.
    first: the slowest stage of screening. "rates": images a second of each stage, on one device.
    "disk_gib": prepared training images, and readings of all screenings. ratio: device-hours of screening on the
    largest number of devices over those on one; 1 would be perfect.
    """
    steps = joint_step(quick, device)
    rates, sizes = _screening(quick, device, steps["size"])
    epochs = PRETRAIN_PRESETS["paper"].epochs
    figures: dict[str, dict[str, Any]] = {}
    for count, parts in ((int(name), parts) for name, parts in steps["processes"].items()):
        seconds = TRAINING / (steps["images_per_process"] * count) * parts["step"]
        stages = {"import": rates["import"], "score": rates["score"] * count, "write": rates["write"]}
        figures[str(count)] = {
            "epoch_hours": seconds / HOUR,
            "training_hours": epochs * seconds / HOUR,
            "beside_the_network": 1 - parts["network"] / parts["step"],
            "screening_hours": SCREENINGS / min(stages.values()) / HOUR,
            "first": min(stages, key=lambda name: stages[name]),
        }
    most = max(figures, key=int)
    gib = {"training": TRAINING * sizes["prepared"] / 2**30, "readings": SCREENINGS * sizes["reading"] / 2**30}
    return {
        "ratio": int(most) * figures[most]["screening_hours"] / figures["1"]["screening_hours"],
        "devices": figures,
        "epochs": epochs,
        "rates": rates,
        "disk_gib": gib,
        "step": steps,
    }


def _screening(quick: bool, device: str, size: int) -> tuple[dict[str, float], dict[str, float]]:
    """Images a second of import with preparation, PaDiM's scores with maps, and writing; bytes an image of each."""
    where = pick_device(device)
    with tempfile.TemporaryDirectory(prefix="pmsacl-cost-") as folder:
        store = opening.open(str(Path(folder) / "home"))
        drawn = Path(folder) / "images"
        for i in range(48 if quick else 400):
            target = drawn / ("train" if i % 2 else "test") / "normal"
            target.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(target / f"{i:04}.png"), draw_case((0, 0, i), size, 0).image)
        began = time.perf_counter()
        study = import_study(store, "cost", drawn).study
        arrays = load_arrays(store, study, size)
        imported = len(arrays.case_ids) / (time.perf_counter() - began)
        run_id = create_fit(store, create_untrained(store, study, size), "padim")
        padim = PaDiM.fit(build_encoder(EncoderConfig()).eval(), arrays.images, PaDiMConfig(), FitContext(device=where))
        scored, looked = _scored(padim, arrays)
        written, reading = _written(store, run_id, arrays, looked)
        store.close()
    rates = {"import": imported, "score": scored, "write": written}
    return rates, {"prepared": 4 * size * size, "reading": reading}


def _scored(padim: PaDiM, arrays: StudyArrays) -> tuple[float, tuple]:
    """Images a second from prepared arrays to scores and maps, the best of two passes; and what was seen."""
    images, roi = np.array(arrays.images), np.array(arrays.roi)
    fastest, looked = 0.0, ()
    for _ in range(2):
        began = time.perf_counter()
        looked = look(padim, images, roi)
        fastest = max(fastest, len(images) / (time.perf_counter() - began))
    return fastest, looked


def _written(store: Store, run_id: str, arrays: StudyArrays, looked: tuple) -> tuple[float, float]:
    """Readings a second that one process writes, and the bytes that the database grows by for one."""
    maps, scores, extras = looked
    calibrations = {kind: Calibration.of(scores[kind], maps) for kind in ("plain", "roi")}
    before, began = _pages(store), time.perf_counter()
    write_readings(store, reading_rows(store, run_id, arrays.case_ids, maps, scores, calibrations, extras))
    seconds = time.perf_counter() - began
    return len(maps) / seconds, (_pages(store) - before) / len(maps)


def _pages(store: Store) -> int:
    """Bytes of the database."""
    pages, size = (store.db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    return int(pages) * int(size)
