"""How alike normal images are place by place: what PaDiM gains by more weight in the blend, the blend beside a head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.config import aligned_weights
from core.engine.detectors.ensemble.ensemble import Blend, BlendHead, Ensemble
from core.engine.metrics.localisation import overlaps_of, pixel_auroc, pro
from core.engine.tensors import pick_device
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.patients import patients_of
from core.studio.runs.sides import ARCH, side_for
from tests.benches import bench
from tests.benches._objects import KINDS, objects
from tests.benches.recipes import auroc

FACTORS = (1.0, 2.0, 4.0, 8.0)  # of PaDiM's weight beside the others'
SEEDS = 3  # of drawn sets
NORMALS, TESTED = 80, 40  # drawn images to fit on; to test on, of each kind
LEVELS = 60  # that the best Dice is looked for at


class _Set(NamedTuple):
    """Images to fit on with their regions of interest and patients; to test on with regions and masks of lesions."""

    train: np.ndarray
    roi: np.ndarray | None
    patients: np.ndarray | None
    test: np.ndarray
    test_roi: np.ndarray
    masks: np.ndarray


@bench("aligned")
def aligned(quick: bool = False, data: str | None = None, device: str = "auto", only: tuple[str, ...] = ()) -> dict:
    """More weight for PaDiM's map in the blend: on drawn objects that lie alike and on the home --data FOLDER.

    Rows: "set", "alignment" (`Ensemble.alignment`), "weight", which PaDiM's map then has of the whole, and for each
    factor of it beside the others' image AUROC, pixel AUROC, PRO over all test images and the best Dice that one level
    for all gives. only: kinds of drawn objects, or studies of the home with lesion masks, by name.
    """
    return {"rows": [_row(name, images, Blend, "padim", device) for name, images in _sets(SEEDS, quick, data, only)]}


@bench("aligned-head")
def aligned_head(
    quick: bool = False, data: str | None = None, device: str = "auto", only: tuple[str, ...] = ()
) -> dict:
    """More weight for the blend beside its lesion head, in the map and in the score; rows as of `aligned`, one seed."""
    return {"rows": [_row(name, images, BlendHead, "blend", device) for name, images in _sets(1, quick, data, only)]}


def _row(name: str, images: _Set, kind: type[Ensemble], gains: str, device: str) -> dict[str, Any]:
    """Fits an ensemble and measures what more weight for its member `gains` brings."""
    encoder = build_encoder(EncoderConfig(arch=ARCH, init="imagenet")).eval()
    context = FitContext(images.roi, pick_device(device), patients=images.patients)
    ensemble = kind.fit(encoder, images.train, kind.preset(), context)
    assert ensemble.kept is not None
    share, weight = ensemble.alignment(len(ensemble.kept), ensemble.known), ensemble.map_weights[gains]
    row = {"set": name, "alignment": share, "weight": weight, **_by_factor(ensemble, gains, images)}
    print(json.dumps(row), flush=True)
    return row


def _sets(seeds: int, quick: bool, data: str | None, only: tuple[str, ...]) -> Iterator[tuple[str, _Set]]:
    for kind in (k for k in KINDS if not only or k in only):
        for seed in range(1 if quick else seeds):
            draw = np.random.default_rng([seed, 31])
            train = objects(kind, NORMALS, False, draw)[0]
            parts = [objects(kind, TESTED, defect, draw) for defect in (False, True)]
            test, masks = (np.concatenate(pair) for pair in zip(*parts, strict=True))
            yield f"{kind}, {seed}", _Set(train, None, None, test, np.ones_like(masks), masks)
    if data:
        store = opening.open(data)
        query = "SELECT DISTINCT c.study FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE c.split = 'test'"
        for study in sorted(row["study"] for row in store.query(query)):
            if not only or study in only:
                yield study, _of_study(store, study)
        store.close()


def _of_study(store: Store, study: str) -> _Set:
    arrays = load_arrays(store, study, side_for(store, study))
    train, well = (arrays.index(split, label="normal") for split in ("train", "test"))
    sick = arrays.index("test", label="abnormal")
    test = np.concatenate([well, sick[arrays.has_mask[sick].astype(bool)]])
    whose = patients_of(store, study, arrays.case_ids[train])
    images, roi = (np.asarray(x[train]) for x in (arrays.images, arrays.roi))
    return _Set(images, roi, whose, *(np.asarray(x[test]) for x in (arrays.images, arrays.roi, arrays.masks)))


def _by_factor(ensemble: Ensemble, gains: str, images: _Set) -> dict[str, list[float]]:
    """Returns figures "auroc", "pixel_auroc", "pro" and "dice", one for each of FACTORS of the member `gains`."""
    valid, sick = images.test_roi > 0, images.masks.any((1, 2))
    figures: dict[str, list[float]] = {"auroc": [], "pixel_auroc": [], "pro": [], "dice": []}
    predictions = []
    with remembering():  # the encoder reads each image once for all factors
        for factor in FACTORS:
            ensemble.map_weights = aligned_weights(ensemble.config.maps, {gains: factor}, {gains: 1.0})
            ensemble.reading_weights = aligned_weights(ensemble.config.readings, {gains: factor}, {gains: 1.0})
            prediction = ensemble.predict(images.test, roi=images.test_roi)
            scores = ensemble.image_score(prediction, images.test_roi)
            figures["auroc"].append(auroc(scores[~sick], scores[sick]))
            predictions.append(prediction.maps)
    for cells in predictions:
        maps = upsample(cells, valid.shape[1])
        levels = np.quantile(maps[valid][::97], np.linspace(0.8, 0.9995, LEVELS))
        dice = [np.nanmean(overlaps_of(maps[sick] > level, images.masks[sick], valid[sick])[0]) for level in levels]
        figures["pixel_auroc"].append(float(pixel_auroc(maps, images.masks, valid)))
        figures["pro"].append(float(pro(maps, images.masks, valid)))
        figures["dice"].append(float(max(dice)))
    return {name: [round(value, 4) for value in values] for name, values in figures.items()}
