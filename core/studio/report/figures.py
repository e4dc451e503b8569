"""The report's figures as PNG: the classes of MedMix, heat maps and lesion masks of the best PMSACL row, and the
features of its encoder before and after training.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.strong import make_classes
from core.engine.rows import rows_of
from core.engine.tensors import to_batch, to_pixels
from core.engine.training.base import VALIDATION, generator
from core.studio.clusters import explore, figure, library
from core.studio.clusters.config import MapConfig
from core.studio.clusters.step import embed
from core.studio.db.store import Store
from core.studio.ingest.studies import load_arrays
from core.studio.jobs.steps import Work
from core.studio.report.cells import Cell
from core.studio.runs import records as runs
from core.studio.runs.sheet import draw_sheet
from core.studio.runs.snapshots import snapshots

SHOWN = 6


def figures(store: Store, study: str, size: int, cells: list[Cell]) -> dict[str, bytes]:
    """Draws the figures by caption; those for which the study has no images are skipped."""
    pictures = {"MedMix on normal images: classes A_0 to A_3, a row each": medmix_strip(store, study, size)}
    ours = [c for c in cells if not c.error and c.label.startswith("PMSACL") and c.rows["paper", False].get("dice")]
    if not ours:
        return pictures
    best = max(ours, key=lambda c: c.rows["paper", False]["dice"])
    row = f"{best.label}, seed {best.seed}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sheet.png"
        draw_sheet(store, best.fit, file, best=6, worst=6, roi=False)
        pictures[f"Heat maps and lesion masks: {row}"] = file.read_bytes()
    clusters = clusters_figure(store, best.encoder)
    if clusters:
        pictures[f"Features f before and after training, t-SNE: {row}"] = clusters
    return pictures


def clusters_figure(store: Store, encoder: str) -> bytes | None:
    """Draws A_0 to A_k in the first and the last saved encoder of a run, as PNG; None if it saved only one."""
    epochs = [snapshot.epoch for snapshot in snapshots(store, runs.get_run(store, encoder))]
    if len(epochs) < 2:
        return None
    # Not centred: centring with a centre per class would separate even untrained features.
    config = MapConfig(feature="projected", epochs=(epochs[0], epochs[-1]))
    key = embed(Work(store, encoder, {"config": config.to_dict()}))
    opened = library.open_map(store, key)
    classes = next(c for c in explore.columns(store, opened, None) if c["name"] == "pseudo")
    return figure.draw(opened, "png", column=classes, objective=figure.objective(store, opened))


def medmix_strip(store: Store, study: str, size: int) -> bytes:
    """Draws some training images without and with one, two and three pasted lesions, as PNG."""
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
