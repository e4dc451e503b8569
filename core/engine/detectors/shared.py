"""Scoring by several processes: each passes a part of the images, and all get the whole prediction."""

from __future__ import annotations

import numpy as np

from core.engine import processes
from core.engine.augment.share import Share
from core.engine.detectors.base import Detector, Prediction


def predict_shared(detector: Detector, images: np.ndarray, roi: np.ndarray | None = None) -> Prediction:
    """What `detector.predict(images, roi=roi)` gives; all of torchrun's processes call it with the same images."""
    rows = Share.of(len(images), processes.rank(), processes.world()).rows
    own = detector.predict(images[rows], roi=None if roi is None else roi[rows])
    parts: list[Prediction] = processes.collect(own)
    extras = {name: np.concatenate([part.extras[name] for part in parts]) for name in own.extras}
    return Prediction(np.concatenate([part.maps for part in parts]), extras)
