"""The uncertainty of a detector's scores: how much they vary over mirrored and enlarged views of an image.

A mirrored or slightly enlarged image should get the same score, because it shows the same tissue."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from core.engine.detectors.base import Detector

SCALES = (1.0, 1.15)


def scores_of_views(detector: Detector, images: np.ndarray, roi: np.ndarray | None = None) -> np.ndarray:
    """Returns scores (V, N) of V views of images uint8 (N, S, S, 3), inside roi (N, S, S) if given.

    The first view is the original image. The views are enlarged by each of SCALES, cropped to the centre, and mirrored
    or not.
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
    """Enlarges images uint8 (N, S, S, C) by `scale` and crops them to the centre, at the same size."""
    if scale == 1.0:
        return images
    size = images.shape[1]
    x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    grown = F.interpolate(x, size=round(size * scale), mode="bilinear", align_corners=False)
    edge = (grown.shape[-1] - size) // 2
    cut = grown[:, :, edge : edge + size, edge : edge + size]
    return cut.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()
