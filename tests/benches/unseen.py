"""The share of unseen normal images that `AnomalyDetector` calls outliers."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import Encoder, build_encoder
from core.studio.programs.estimator import AnomalyDetector
from tests.benches import bench

DETECTORS = ("padim", "mahalanobis", "nearest", "blend")
SIDE, SEEDS, UNSEEN = 64, 20, 0.3
RUN, ALONE = 10, "run"  # images by name that are unseen together, where no patient is known
PATIENT = r"^(TCGA_\w\w_\w{4}|\d{8})_"  # how names of images say whose they are


@bench("unseen")
def unseen(quick: bool = False, data: str | None = None, contamination: float = 0.05) -> dict[str, Any]:
    """Share of unseen normals that AnomalyDetector calls outliers, beside the share asked for, by set and detector.

    --data FOLDER holds sets: NAME/train/normal, NAME/test/normal. For each of twenty seeds 30 % of a set's normals
    (train and test together) are drawn as unseen: whole patients where names say whose an image is, elsewhere runs of
    ten images by name, since neighbours are often of one patient. The detector is fitted on the others at 64 px.

    "rows": of each set and detector the mean over seeds, its range, and seconds of a fit.
    """
    if data is None:
        raise ValueError("say where the sets are: --data FOLDER")
    encoder, rows = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto")), []
    for folder in sorted(place for place in Path(data).iterdir() if (place / "train/normal").is_dir()):
        images, patients = normals(folder)
        if quick:
            images, patients = images[:24], patients[:24]
        with remembering():
            for detector in DETECTORS[:2] if quick else DETECTORS:
                found = [flagged(encoder, detector, images, patients, seed, contamination) for seed in range(SEEDS)]
                shares, seconds = (np.array(column) for column in zip(*found, strict=True))
                rows.append({
                    "set": folder.name, "detector": detector, "images": len(images), "patients": len(set(patients)),
                    "flagged": float(shares.mean()), "least": float(shares.min()), "most": float(shares.max()),
                    "fit_seconds": float(np.median(seconds)),
                })  # fmt: skip
    return {"contamination": contamination, "rows": rows}


def normals(folder: Path) -> tuple[np.ndarray, list[str]]:
    """Reads a set's normal images uint8 (N, SIDE, SIDE, 3), in order of their names, and what each belongs to."""
    files = sorted(
        (f for part in ("train", "test") for f in (folder / part / "normal").iterdir()), key=lambda f: f.name
    )
    read = [cv2.resize(cv2.imread(str(file)), (SIDE, SIDE), interpolation=cv2.INTER_AREA) for file in files]
    owners = [re.match(PATIENT, file.name) for file in files]
    return np.stack(read)[..., ::-1], [owner[1] if owner else f"{ALONE} {i // RUN}" for i, owner in enumerate(owners)]


def flagged(
    encoder: Encoder, detector: str, images: np.ndarray, patients: list[str], seed: int, contamination: float
) -> tuple[float, float]:
    """Returns the share of unseen images called outliers, and the seconds of the fit."""
    names = np.unique(patients)
    drawn = np.random.default_rng(seed).permutation(names)[: round(UNSEEN * len(names))]
    new = np.isin(patients, drawn)
    made = AnomalyDetector(detector, encoder=encoder, contamination=contamination, random_state=seed)
    start = time.perf_counter()
    made.fit(images[~new], groups=None if patients[0].startswith(ALONE) else np.array(patients)[~new])
    seconds = time.perf_counter() - start
    return float((made.predict(images[new]) < 0).mean()), seconds
