"""How well the first outline fits: by one level for all images, and by the rule of `calibration.outlines`.

Every seed holds other normal images out, whole patients where they are known; detectors see ImageNet's features as they
are, so that no encoder has seen what is held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import learn_share, level_of, outlined, peaks, seen_rows
from core.engine.calibration.percentiles import Calibration, PixelScale
from core.engine.detectors.base import FitContext
from core.engine.metrics.localisation import overlaps_of
from core.engine.registry import DETECTORS
from core.engine.rows import rows_of
from core.engine.tensors import pick_device
from core.studio.db.store import Store
from core.studio.ingest.patients import patients_of
from core.studio.ingest.studies import HOLDOUT_FRACTION, StudyArrays, load_arrays
from core.studio.report.arms import Arm
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.scoring import SEEN_SIDE
from core.studio.runs.sides import ARCH, SIZE, side_for
from tests.benches.experiments.from_imagenet import HEADED, PRETRAINED

Report = Callable[[str], None]
PARTS = ("outlined", "outlined_normal")


def contour() -> list[Arm]:
    """Lists arms: outlines of a first look, and of the default detector on the same features."""
    return [
        Arm(f"{title}, ImageNet", name, UNTRAINED, pretrain=PRETRAINED, closer=True)
        for title, name in (("Blend", "blend"), (HEADED, "blend-head"))
    ]


def run_contour(
    store: Store, study: str, arms: list[Arm], seeds: list[int], *, device: str = "auto", report: Report = print
) -> list[dict]:
    """Measures outlines by the outline's rule and by one level; returns one row per arm and seed.

    `dice` and `outlined` (the part of an abnormal image that is outlined) are by the rule, `dice_one_level` and
    `outlined_one_level` by one level; `outlined_normal` and `outlined_normal_one_level` are of normal test images.
    Raises ValueError for a study without lesion masks in its test.
    """
    side = side_for(store, study) if arms and arms[0].closer else SIZE
    arrays = load_arrays(store, study, side)
    test = arrays.index("test")
    sick = test[arrays.has_mask[test].astype(bool) & (arrays.label[test] == "abnormal")]
    if not len(sick):
        raise ValueError(f"study {study} has no test image with a lesion mask")
    encoder = build_encoder(EncoderConfig(arch=ARCH, init="imagenet")).to(pick_device(device)).eval()
    rows = []
    with remembering():
        for seed in seeds:
            fitted_rows, held, patients = _held_out(store, study, arrays, seed)
            for arm in arms:
                started = time.monotonic()
                kind = DETECTORS.get(arm.detector)
                config = arm.start().replace(seed=seed)
                around = FitContext(
                    rows_of(arrays.roi, fitted_rows),
                    pick_device(device),
                    patients=None if patients is None else patients[0],
                )
                detector = kind.fit(encoder, rows_of(arrays.images, fitted_rows), config, around)
                row = _measured(detector, arrays, fitted_rows, held, None if patients is None else patients[1], sick)
                row |= {"label": arm.label, "seed": seed, "roi": True, "seconds": time.monotonic() - started}
                rows.append(row)
                report(_line(study, row))
    return rows


def _line(study: str, row: dict) -> str:
    change = [f"{name} {row[f'{name}_one_level']:.3f} -> {row[name]:.3f}" for name in ("dice", *PARTS)]
    return f"{study} seed {row['seed']} {row['label']}: share {row['outline_share']}, {', '.join(change)}"


def _held_out(
    store: Store, study: str, arrays: StudyArrays, seed: int
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Rows of the normals to fit on and of those held out, and the patients of both, if known."""
    normal = arrays.index("train", "holdout", label="normal")
    patients = patients_of(store, study, arrays.case_ids[normal])
    units = np.arange(len(normal)) if patients is None else np.unique(patients, return_inverse=True)[1]
    drawn = np.random.default_rng(seed).permutation(units.max() + 1)
    out = np.isin(units, drawn[: max(1, round(len(drawn) * HOLDOUT_FRACTION))])
    return normal[~out], normal[out], None if patients is None else (patients[~out], patients[out])


def _measured(
    detector,
    arrays: StudyArrays,
    fitted_rows: np.ndarray,
    held: np.ndarray,
    patients: np.ndarray | None,
    sick: np.ndarray,
) -> dict:
    def maps_of(index: np.ndarray) -> np.ndarray:
        return np.asarray(detector.predict(np.asarray(arrays.images[index]), roi=np.asarray(arrays.roi[index])).maps)

    roi = np.asarray(arrays.roi[held])
    one_level = Calibration.of(np.zeros(len(held)), maps_of(held), roi, patients).pixels
    assert one_level is not None  # it was made of maps
    scale = one_level._replace(seen=seen_rows(rows_of(arrays.roi, fitted_rows), SEEN_SIDE))
    share = learn_share(
        lambda images, inside: detector.predict(images, roi=inside).maps, np.asarray(arrays.images[held]), roi, scale
    )
    row: dict = {"outline_share": share}
    well = arrays.index("test", label="normal")
    maps = {True: maps_of(sick), False: maps_of(well)}
    masks = np.asarray(arrays.masks[sick])
    for ending, by in (("_one_level", one_level), ("", scale._replace(share=share))):
        outlines, valid = _outlines(maps[True], np.asarray(arrays.roi[sick]), by)
        row[f"dice{ending}"] = float(np.nanmean(overlaps_of(outlines, masks, valid)[0]))
        row[f"outlined{ending}"] = float((outlines.sum((1, 2)) / valid.sum((1, 2))).mean())
        outlines, valid = _outlines(maps[False], np.asarray(arrays.roi[well]), by)
        row[f"outlined_normal{ending}"] = float((outlines.sum((1, 2)) / valid.sum((1, 2))).mean())
    return row


def _outlines(maps: np.ndarray, roi: np.ndarray, scale: PixelScale) -> tuple[np.ndarray, np.ndarray]:
    valid = roi > 0
    return outlined(upsample(maps, roi.shape[1]), level_of(peaks(maps, roi, scale), scale), scale, valid), valid
