"""Uncertainty of a detector's scores: how much the scores vary over mirrored and enlarged views of an image.

A mirrored or slightly enlarged image shows the same tissue, so it should get the same score.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from core.engine.detectors.base import Detector

SCALES = (1.0, 1.15)  # factors by which views are enlarged


def scores_of_views(detector: Detector, images: np.ndarray, roi: np.ndarray | None = None) -> np.ndarray:
    """Returns the scores of V views of N images, `(V, N)`. The first view is the original image.

    For each factor in SCALES there are two views, one of them mirrored. Enlarged views are cropped at the centre.

    Args:
        detector: Fitted detector.
        images: RGB images, `uint8 (N, S, S, 3)`.
        roi: Regions of interest, `(N, S, S)`, 1 inside, or None to score whole images.
    """
    scores = []
    for scale in SCALES:
        for mirrored in (False, True):
            view, inside = _zoom(images, scale), None if roi is None else _zoom(roi[..., None], scale)[..., 0]
            if mirrored:
                view = np.ascontiguousarray(view[:, :, ::-1])
                inside = None if inside is None else np.ascontiguousarray(inside[:, :, ::-1])
            scores.append(detector.image_score(detector.predict(view), inside))
    return np.stack(scores)


def _zoom(images: np.ndarray, scale: float) -> np.ndarray:
    """Enlarges images, `uint8 (N, S, S, C)`, by `scale` and crops the centre to the original size."""
    if scale == 1.0:
        return images
    size = images.shape[1]
    x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    grown = F.interpolate(x, size=round(size * scale), mode="bilinear", align_corners=False)
    edge = (grown.shape[-1] - size) // 2
    cut = grown[:, :, edge : edge + size, edge : edge + size]
    return cut.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()
