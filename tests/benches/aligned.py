"""How alike normal images are place by place, and what PaDiM's map gains by more weight in the blend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.config import aligned_weights
from core.engine.detectors.ensemble.ensemble import Blend
from core.engine.detectors.ensemble.named import BlendConfig
from core.engine.detectors.padim import PaDiM
from core.engine.metrics.localisation import overlaps_of, pixel_auroc, pro
from core.engine.tensors import pick_device
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.patients import patients_of
from core.studio.runs.sides import ARCH, side_for
from tests.benches import bench
from tests.benches._objects import KINDS, objects

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

    Rows: "set", "alignment" (`PaDiM.alignment`), "weight", which PaDiM's map then has of the whole, and for each factor
    of it beside the others' pixel AUROC, PRO over all test images and the best Dice that one level for all gives. only:
    kinds of drawn objects, or studies of the home with lesion masks, by name.
    """
    encoder = build_encoder(EncoderConfig(arch=ARCH, init="imagenet")).eval()
    rows = []
    for name, images in _sets(1 if quick else SEEDS, data, only):
        context = FitContext(images.roi, pick_device(device), patients=images.patients)
        blend = Blend.fit(encoder, images.train, BlendConfig(), context)
        padim = blend.members["padim"]
        assert isinstance(padim, PaDiM) and blend.kept is not None
        share = padim.alignment(len(blend.kept), blend.known)
        rows.append(
            {"set": name, "alignment": share, "weight": blend.map_weights["padim"], **_by_factor(blend, images)}
        )
    return {"rows": rows}


def _sets(seeds: int, data: str | None, only: tuple[str, ...]) -> Iterator[tuple[str, _Set]]:
    for kind in (k for k in KINDS if not only or k in only):
        for seed in range(seeds):
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


def _by_factor(blend: Blend, images: _Set) -> dict[str, list[float]]:
    """Figures "pixel_auroc", "pro" and "dice", one for each of FACTORS."""
    valid, sick = images.test_roi > 0, images.masks.any((1, 2))
    figures: dict[str, list[float]] = {"pixel_auroc": [], "pro": [], "dice": []}
    predictions = []
    with remembering():  # the encoder reads each image once for all factors
        for factor in FACTORS:
            blend.map_weights = aligned_weights(blend.config.maps, {"padim": factor}, {"padim": 1.0})
            predictions.append(blend.predict(images.test, roi=images.test_roi).maps)
    for cells in predictions:
        maps = upsample(cells, valid.shape[1])
        levels = np.quantile(maps[valid][::97], np.linspace(0.8, 0.9995, LEVELS))
        dice = [np.nanmean(overlaps_of(maps[sick] > level, images.masks[sick], valid[sick])[0]) for level in levels]
        figures["pixel_auroc"].append(float(pixel_auroc(maps, images.masks, valid)))
        figures["pro"].append(float(pro(maps, images.masks, valid)))
        figures["dice"].append(float(max(dice)))
    return figures
