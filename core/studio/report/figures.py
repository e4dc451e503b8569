"""The report's pictures, as PNG: the classes of MedMix, and heat maps beside lesion masks of the best PMSACL row."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from core.engine.augment.classes import make_classes
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.medmix.presets import MEDMIX_PRESETS
from core.engine.tensors import to_batch, to_pixels
from core.engine.training.generators import VALIDATION, generator
from core.studio.db.store import Store
from core.studio.ingest.cache import rows_of
from core.studio.ingest.studies import load_arrays
from core.studio.report.cells import Cell
from core.studio.runs.sheet import draw_sheet

SHOWN = 6


def figures(store: Store, study: str, size: int, cells: list[Cell]) -> dict[str, bytes]:
    """Pictures by their captions; what the study has no images for is left out."""
    found = {"MedMix on normal images: classes A_0 to A_3, a row each": medmix_strip(store, study, size)}
    made = [c for c in cells if not c.error and c.label.startswith("PMSACL") and c.rows["paper", False].get("dice")]
    if made:
        best = max(made, key=lambda c: c.rows["paper", False]["dice"])
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "sheet.png"
            draw_sheet(store, best.fit, place, best=6, worst=6, roi=False)
            found[f"Heat maps beside lesion masks: {best.label}, seed {best.seed}"] = place.read_bytes()
    return found


def medmix_strip(store: Store, study: str, size: int) -> bytes:
    """PNG: some training images, and one, two and three lesions in each."""
    import cv2
    import torch

    arrays = load_arrays(store, study, size)
    train = arrays.index("train")[:SHOWN]
    x = to_batch(rows_of(arrays.images, train), torch.device("cpu"))
    inside = torch.from_numpy(np.array(rows_of(arrays.roi, train)))
    images, _ = make_classes(MedMix(MEDMIX_PRESETS["paper"]), x, 3, generator(0, VALIDATION), inside)
    pixels = to_pixels(images.transpose(0, 1).flatten(0, 1)).reshape(4, len(train), size, size, 3)
    mosaic = np.concatenate([np.concatenate(list(row), 1) for row in pixels])
    return bytes(cv2.imencode(".png", mosaic[..., ::-1])[1].tobytes())
