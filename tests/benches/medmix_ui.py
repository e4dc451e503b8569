"""The sliders of the MedMix tab."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from core.engine.augment.config import MEDMIX_PRESETS
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.medmix import preview as medmix_view
from core.studio.medmix.preview import Samples
from tests.benches import bench

AIM = 0.3  # seconds, at 256 px on two cores
SHOWN = ("paper", "quick", "soft", "endoscopy", "ultrasound")
SHORT = ("paper", "endoscopy")


@bench("medmix-ui")
def medmix_ui(quick: bool = False) -> dict:
    """What a slider of the MedMix tab waits for: 4 x 6 pictures drawn, outlined and packed, at 256 and 512 px.

    Median and slowest of several repaints per preset and side, each with another setting, as a moving slider asks.

    cpu_ms is what one takes of a core, and what is waited for on a machine with nothing else to do.
    "ratio": the aim of 300 ms over the slowest preset's median at 256 px; above 1 is within it.
    """
    times = 3 if quick else 7
    with tempfile.TemporaryDirectory() as folder:
        opened = opening.open(str(Path(folder) / "home"))
        _draw(Path(folder) / "images")
        studies.import_study(opened, "bench", Path(folder) / "images")
        samples = Samples(opened)
        rows = []
        for side in (256, 512):
            for name in SHORT if quick else SHOWN:
                config = MEDMIX_PRESETS[name]
                for weak in (False, True):
                    repaints = [_repaint(samples, side, config.to_dict(), i, weak) for i in range(times + 1)][1:]
                    wall, cpu = zip(*repaints, strict=True)
                    rows.append({"side": side, "preset": name, "weak": weak, "median_ms": _ms(statistics.median(wall)),
                                 "slowest_ms": _ms(max(wall)), "cpu_ms": _ms(statistics.median(cpu))})  # fmt: skip
        opened.close()
    worst = max(r["median_ms"] for r in rows if r["side"] == 256)
    return {"ratio": round(1000 * AIM / worst, 2), "aim_ms": 1000 * AIM, "rows": rows}


def _repaint(samples: Samples, side: int, config: dict, i: int, weak: bool) -> tuple[float, float]:
    """Repaints once; returns seconds on the clock and of the processor."""
    low, high = config["size"]
    moved = {**config, "size": (low, min(1.0, high + 0.005 * i))}
    started, busy = time.perf_counter(), time.process_time()
    medmix_view.draw_grid(samples, medmix_view.Scene(study="bench", config=moved, size=side, weak=weak)).pack()
    return time.perf_counter() - started, time.process_time() - busy


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def _draw(folder: Path) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(12):
        coarse = rng.integers(40, 220, (24, 24, 3), np.uint8)
        cv2.imwrite(str(folder / f"{i:02}.png"), cv2.resize(coarse, (512, 512), interpolation=cv2.INTER_CUBIC))
